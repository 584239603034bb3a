// SPDX-License-Identifier: Apache-2.0
// The device socket's messages, byte for byte: one struct for all of them, followed by entries in a grant
// batch. PROTOCOL.md says what they mean. Plain C11, also valid C++. Fields that a type doesn't use are zero.
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
  PSTW_DEVICE_MAGIC = 0x44534e50,  // "PNSD"
  PSTW_GRANTS_MAX = 128,           // Entries, each with one descriptor.
};

enum pstw_device_type {
  // From the client. Each may acknowledge: batch (zero: none), which `granted` must.
  PSTW_FAULT = 0x01,         // request, table, page, count
  PSTW_PREFETCH = 0x02,      // request, table, page, count
  PSTW_MAKE_PRIVATE = 0x03,  // request, table (the shared one), page, count
  PSTW_GRANTED = 0x04,       // batch
  PSTW_ACKED = 0x05,         // table, page, generation
  PSTW_BUSY = 0x06,          // table, page, generation; flag PSTW_BUSY_LATER
  PSTW_IDLE = 0x07,          // table, page
  PSTW_RELEASE = 0x08,       // request, table, page, generation; flag PSTW_RELEASE_DROP_IF_LAST
  PSTW_PRIORITIZE = 0x09,    // table
  PSTW_CUTOFF = 0x0a,        // table, count
  PSTW_CANCEL_FAULT = 0x0b,  // request (of a fault, prefetch or make-private)
  // From the service.
  PSTW_GRANTS = 0x41,      // batch, count; flag PSTW_GRANTS_COMPLETE: also the fields of a completion
  PSTW_REVOKE = 0x42,      // table, page, generation
  PSTW_COMPLETION = 0x43,  // request, result, reason, frames, released_bytes
  PSTW_DEVICE_CLOSING = 0x44,
};

enum {
  PSTW_BUSY_LATER = 1,
  PSTW_RELEASE_DROP_IF_LAST = 1,
  PSTW_GRANTS_COMPLETE = 1,
};

enum pstw_result {
  PSTW_RESULT_DONE = 0,
  PSTW_RESULT_OFFLOADED = 1,
  PSTW_RESULT_FAILED = 2,
  PSTW_RESULT_CANCELLED = 3
};

struct pstw_device_message {
  uint32_t magic;  // PSTW_DEVICE_MAGIC
  uint16_t type;   // enum pstw_device_type
  uint16_t flags;
  uint32_t table;
  uint32_t page;   // The first one, of a range.
  uint32_t count;  // Pages of a range or below a cut-off; entries of a batch.
  uint32_t batch;
  uint64_t request;  // The client's own number; zero: no answer wanted.
  uint64_t generation;
  uint64_t released_bytes;
  uint8_t result;  // enum pstw_result
  uint8_t reason;  // FailureKind
  uint16_t reserved16;
  uint32_t frames;
  uint64_t reserved64;
};
static_assert(sizeof(struct pstw_device_message) == 64, "wire size");
static_assert(offsetof(struct pstw_device_message, request) == 24, "wire offset");
static_assert(offsetof(struct pstw_device_message, result) == 48, "wire offset");
static_assert(offsetof(struct pstw_device_message, frames) == 52, "wire offset");

#define PSTW_ENTRY_WRITABLE (UINT64_C(1) << 63)
#define PSTW_ENTRY_GENERATION_MASK ((UINT64_C(1) << 62) - 1)
struct pstw_grant_entry {  // Its descriptor has the same position.
  uint32_t table;
  uint32_t page;
  uint64_t generation;  // Bit 63: PSTW_ENTRY_WRITABLE; bit 62: zero.
};
static_assert(sizeof(struct pstw_grant_entry) == 16, "wire size");

enum { PSTW_DEVICE_MESSAGE_BYTES_MAX = 64 + PSTW_GRANTS_MAX * 16 };
