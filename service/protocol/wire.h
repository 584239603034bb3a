// SPDX-License-Identifier: Apache-2.0
// The control socket's messages, byte for byte. PROTOCOL.md says what they mean; codec.hpp reads and writes
// them.
//
// Plain C11, also valid C++. Every message is one SEQPACKET datagram, little-endian, without implicit
// padding. `reserved` fields and the unused end of a text are zero. Texts are UTF-8, not terminated, `_bytes`
// long.
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "The wire format is little-endian and is used without conversion."
#endif

enum {
  PSTW_PROTOCOL = 1,        // Sent both ways; unequal numbers never talk to each other.
  PSTW_MAGIC = 0x54534e50,  // "PNST"
  PSTW_MESSAGE_BYTES_MAX = 65536,
  PSTW_DESCRIPTORS_MAX = 128,  // In one message, on either socket.
  PSTW_DEVICES_MAX = 16,
  PSTW_OPEN_FILES_MAX = 64,          // In one message: two descriptors each.
  PSTW_CHECKPOINT_FILES_MAX = 1024,  // In one checkpoint.
  PSTW_TABLE_CHECKPOINTS_MAX = 16,
  PSTW_REQUESTS_MAX = 64,    // Unanswered ones of one session.
  PSTW_HOLDINGS_MAX = 128,   // In one report.
  PSTW_READ_FILES_MAX = 64,  // Added by one session and not dropped.
  PSTW_VERSION_BYTES_MAX = 32,
  PSTW_NAME_BYTES_MAX = 64,
  PSTW_FILE_NAME_BYTES_MAX = 256,
  PSTW_DEVICE_ID_BYTES_MAX = 32,
  PSTW_CHECKPOINT_ID_BYTES = 12,
  PSTW_MESSAGE_TEXT_BYTES_MAX = 1024,
  PSTW_HINT_TEXT_BYTES_MAX = 512,
  PSTW_REFUSAL_TEXT_BYTES_MAX = 240,
};

// From the client 0x01.., answers 0x41.., events 0x81...
enum pstw_type {
  PSTW_HELLO = 0x01,
  PSTW_OPEN_CHECKPOINT = 0x02,
  PSTW_CLOSE_CHECKPOINT = 0x03,
  PSTW_OPEN_TABLE = 0x04,
  PSTW_CLOSE_TABLE = 0x05,
  PSTW_ADMIT = 0x06,
  PSTW_RELEASE_GRANT = 0x07,
  PSTW_CREATE_BUFFER = 0x08,
  PSTW_TRUNCATE_BUFFER = 0x09,
  PSTW_FREE_BUFFER = 0x0a,
  PSTW_FREE = 0x0b,
  PSTW_QUERY = 0x0c,
  PSTW_CANCEL = 0x0d,
  PSTW_REPORT = 0x0e,
  PSTW_BOOK_COPY = 0x0f,
  PSTW_ADD_FILE = 0x10,
  PSTW_DROP_FILE = 0x11,
  PSTW_READ_FILE = 0x12,

  PSTW_HELLO_REPLY = 0x41,
  PSTW_REFUSED = 0x42,
  PSTW_DONE = 0x43,
  PSTW_FAILURE = 0x44,
  PSTW_CHECKPOINT_REPLY = 0x45,
  PSTW_TABLE_REPLY = 0x46,
  PSTW_ADMIT_REPLY = 0x47,
  PSTW_BUFFER_REPLY = 0x48,
  PSTW_FREE_REPLY = 0x49,
  PSTW_QUERY_REPLY = 0x4a,
  PSTW_FILE_REPLY = 0x4b,

  PSTW_CLOSING = 0x81,
  PSTW_PRESSURE = 0x82,
  PSTW_TABLE_GONE = 0x83,
  PSTW_PROGRESS = 0x84,
};

// Frozen for all protocol numbers, as are the first field of pstw_hello and all of pstw_refused.
struct pstw_header {
  uint32_t magic;        // PSTW_MAGIC
  uint16_t type;         // enum pstw_type
  uint16_t flags;        // Each type's own; zero where none is listed.
  uint32_t bytes;        // Of the whole datagram.
  uint32_t descriptors;  // That came with it.
  uint64_t request;      // The client's number, above zero; the answer repeats it. Events: zero.
};
static_assert(sizeof(struct pstw_header) == 24, "frozen");
static_assert(offsetof(struct pstw_header, request) == 16, "frozen");

// Greeting.
enum { PSTW_HELLO_EVENTS = 1 };  // Flag: this client reads events.
struct pstw_hello {
  struct pstw_header header;
  uint32_t protocol;
  uint32_t version_bytes;
  uint32_t name_bytes;
  uint32_t reserved;
  char version[PSTW_VERSION_BYTES_MAX];  // Of the library, for people.
  char name[PSTW_NAME_BYTES_MAX];        // Of the client, for people.
};
static_assert(sizeof(struct pstw_hello) == 136, "wire size");
static_assert(offsetof(struct pstw_hello, protocol) == 24, "frozen");

enum pstw_device_kind { PSTW_DEVICE_HOST = 0, PSTW_DEVICE_CUDA = 1, PSTW_DEVICE_HIP = 2 };
struct pstw_device {
  char id[PSTW_DEVICE_ID_BYTES_MAX];
  uint32_t id_bytes;
  uint32_t kind;
  uint64_t frame_bytes;  // Power of two, at least 4096: also the size of a page.
  uint64_t tensor_alignment;
  uint64_t capacity_bytes;
  uint64_t reserved;
};
static_assert(sizeof(struct pstw_device) == 72, "wire size");

struct pstw_hello_reply {
  struct pstw_header header;
  uint32_t protocol;
  uint32_t session;
  uint32_t devices;  // Later messages name a device by its position here.
  uint32_t version_bytes;
  char version[PSTW_VERSION_BYTES_MAX];
  uint64_t revoke_deadline_ns;
  uint64_t cooperative_deadline_ns;
  struct pstw_device device[PSTW_DEVICES_MAX];
};
static_assert(sizeof(struct pstw_hello_reply) == 1240, "wire size");

struct pstw_refused {  // The protocol numbers differ; the service then closes.
  struct pstw_header header;
  uint32_t service_protocol;
  uint32_t client_protocol;
  uint32_t text_bytes;
  uint32_t reserved;
  char text[PSTW_REFUSAL_TEXT_BYTES_MAX];
};
static_assert(sizeof(struct pstw_refused) == 280, "frozen");

// Answers without fields, and failures.
struct pstw_done {
  struct pstw_header header;
};

struct pstw_failure {
  struct pstw_header header;
  uint32_t kind;  // FailureKind; a number that the receiver doesn't know reads as `internal`.
  uint32_t message_bytes;
  uint32_t hint_bytes;
  uint32_t reserved;
  char message[PSTW_MESSAGE_TEXT_BYTES_MAX];
  char hint[PSTW_HINT_TEXT_BYTES_MAX];
};
static_assert(sizeof(struct pstw_failure) == 1576, "wire size");

// Checkpoints.
// Flag of pstw_open_checkpoint: more files follow under the same request number.
enum { PSTW_OPEN_MORE = 1 };
// Flag of pstw_open_file: a second descriptor, opened O_DIRECT, follows the first.
enum { PSTW_FILE_DIRECT = 1 };
struct pstw_open_file {
  uint32_t flags;
  uint32_t name_bytes;
  char name[PSTW_FILE_NAME_BYTES_MAX];  // Last part of the path, for people and for shards.
};
static_assert(sizeof(struct pstw_open_file) == 264, "wire size");

struct pstw_open_checkpoint {  // Followed by `files` pstw_open_file.
  struct pstw_header header;
  uint32_t files;
  uint32_t name_bytes;
  char name[PSTW_FILE_NAME_BYTES_MAX];
};
static_assert(sizeof(struct pstw_open_checkpoint) == 288, "wire size");

struct pstw_checkpoint_reply {  // One descriptor: the index (blob_wire.h), sealed.
  struct pstw_header header;
  uint64_t checkpoint;  // Handle, known to its session alone.
  char id[PSTW_CHECKPOINT_ID_BYTES];
  uint32_t files;
  uint32_t tensors;
  uint32_t reserved;
  uint64_t file_bytes;
  uint64_t tensor_bytes;
  uint64_t index_bytes;
};
static_assert(sizeof(struct pstw_checkpoint_reply) == 80, "wire size");

struct pstw_close_checkpoint {
  struct pstw_header header;
  uint64_t checkpoint;
};

// Page tables.
enum pstw_table_kind { PSTW_TABLE_FILE = 0, PSTW_TABLE_ASSEMBLED = 1, PSTW_TABLE_ANONYMOUS = 2 };
enum pstw_layout {
  PSTW_LAYOUT_AUTOMATIC = 0,
  PSTW_LAYOUT_IDENTITY = 1,
  PSTW_LAYOUT_SHIFTED = 2,
  PSTW_LAYOUT_SCATTERED = 3
};
enum pstw_revoke_mode { PSTW_MODE_AGENT = 0, PSTW_MODE_COOPERATIVE = 1 };
enum { PSTW_TABLE_OVERLAY = 1 };  // Flag of pstw_open_table: pages may be made private.
#define PSTW_ALL_FILES UINT32_C(0xffffffff)

struct pstw_open_table {  // Assembled: one descriptor, the manifest (blob_wire.h), sealed.
  struct pstw_header header;
  uint32_t device;
  uint32_t kind;
  uint32_t layout;
  uint32_t mode;
  uint32_t file;         // Kind file: which one of the checkpoint, or PSTW_ALL_FILES.
  uint32_t checkpoints;  // Kind file: 1. Assembled: at least 1. Anonymous: 0.
  uint64_t bytes;        // Anonymous: size wanted.
  uint64_t manifest_bytes;
  uint64_t checkpoint[PSTW_TABLE_CHECKPOINTS_MAX];
};
static_assert(sizeof(struct pstw_open_table) == 192, "wire size");

// Flags of pstw_table_reply; the descriptors come in this order, after page words and session region.
enum { PSTW_REPLY_OVERLAY_WORDS = 1, PSTW_REPLY_TENSOR_OFFSETS = 2, PSTW_REPLY_DEVICE_SOCKET = 4 };
struct pstw_table_reply {
  struct pstw_header header;
  uint32_t table;          // Above zero, never used again while the service runs.
  uint32_t overlay_table;  // Number of the private pages, or zero.
  uint32_t pages;
  uint32_t layout;  // The one made; never automatic.
  uint64_t page_bytes;
  uint64_t table_bytes;
  uint64_t shift_bytes;     // Shifted: table offset = file offset + this.
  uint64_t tensor_offsets;  // Scattered: entries of the descriptor, one uint64_t a tensor in index order.
};
static_assert(sizeof(struct pstw_table_reply) == 72, "wire size");

struct pstw_close_table {
  struct pstw_header header;
  uint32_t table;
  uint32_t reserved;
};
static_assert(sizeof(struct pstw_close_table) == 32, "wire size");

// Admission, memory.
struct pstw_admit {
  struct pstw_header header;
  uint32_t device;
  uint32_t reserved;
  uint64_t weights_bytes;
  uint64_t work_bytes;
  uint64_t minimum_work_bytes;
  uint64_t timeout_ns;
};
static_assert(sizeof(struct pstw_admit) == 64, "wire size");

struct pstw_admit_reply {
  struct pstw_header header;
  uint64_t grant;
  uint64_t work_bytes;
  uint64_t waited_ns;
};
static_assert(sizeof(struct pstw_admit_reply) == 48, "wire size");

struct pstw_release_grant {
  struct pstw_header header;
  uint64_t grant;
};

struct pstw_create_buffer {
  struct pstw_header header;
  uint64_t bytes;
};

struct pstw_buffer_reply {  // One descriptor.
  struct pstw_header header;
  uint64_t buffer;
  uint64_t bytes;
};
static_assert(sizeof(struct pstw_buffer_reply) == 40, "wire size");

struct pstw_truncate_buffer {
  struct pstw_header header;
  uint64_t buffer;
  uint64_t bytes;
};

struct pstw_free_buffer {
  struct pstw_header header;
  uint64_t buffer;
};

struct pstw_free {
  struct pstw_header header;
  uint32_t device;
  uint32_t reserved;
  uint64_t bytes;
  uint64_t timeout_ns;
};
static_assert(sizeof(struct pstw_free) == 48, "wire size");

struct pstw_free_reply {
  struct pstw_header header;
  uint64_t freed_bytes;
};

// What a client holds.
enum pstw_holding_kind {
  PSTW_HOLDING_WEIGHTS = 0,
  PSTW_HOLDING_WORK = 1,
  PSTW_HOLDING_CARRY = 2,
  PSTW_HOLDING_RESULTS = 3,
  PSTW_HOLDING_STATE = 4,
  PSTW_HOLDING_OTHER = 5,
};
enum pstw_holding_place {
  PSTW_PLACE_DEVICE = 0,
  PSTW_PLACE_LOCKED_HOST = 1,
  PSTW_PLACE_ANONYMOUS = 2,
  PSTW_PLACE_PAGE_CACHE = 3,
  PSTW_PLACE_DISK = 4,
};
struct pstw_holding {
  uint32_t kind;
  uint32_t place;
  uint32_t device;  // PSTW_NO_DEVICE where the place is no device's.
  uint32_t reserved;
  uint64_t bytes;
};
static_assert(sizeof(struct pstw_holding) == 24, "wire size");

struct pstw_report {  // Followed by `holdings` pstw_holding, ascending by kind, place, device.
  struct pstw_header header;
  uint32_t holdings;
  uint32_t reserved;
};
static_assert(sizeof(struct pstw_report) == 32, "wire size");

// Questions in JSON.
enum pstw_query_kind {
  PSTW_QUERY_STATUS = 0,
  PSTW_QUERY_EXPLAIN = 1,
  PSTW_QUERY_LOAD = 2,
  PSTW_QUERY_EVICT = 3,
  PSTW_QUERY_DOCTOR = 4,
  PSTW_QUERY_SCRUB = 5,
};
struct pstw_query {  // Followed by json_bytes of JSON, an object; zero bytes read as {}.
  struct pstw_header header;
  uint32_t kind;
  uint32_t json_bytes;
};
static_assert(sizeof(struct pstw_query) == 32, "wire size");

struct pstw_query_reply {  // Followed by json_bytes of JSON, or with one descriptor, sealed, of that size.
  struct pstw_header header;
  uint64_t json_bytes;
};
static_assert(sizeof(struct pstw_query_reply) == 32, "wire size");

struct pstw_cancel {  // Has no answer: the request that it names is answered.
  struct pstw_header header;
  uint64_t cancelled;
};

// Events.
struct pstw_closing {  // The service stops; mapped pages stay readable.
  struct pstw_header header;
};

enum pstw_pressure_level { PSTW_PRESSURE_CALM = 0, PSTW_PRESSURE_SOME = 1, PSTW_PRESSURE_FULL = 2 };
#define PSTW_NO_DEVICE UINT32_C(0xffffffff)
struct pstw_pressure {
  struct pstw_header header;
  uint32_t level;
  uint32_t device;        // PSTW_NO_DEVICE: host memory as a whole.
  uint64_t excess_bytes;  // What this client would do well to unpin or free; 0 = nothing in particular.
};
static_assert(sizeof(struct pstw_pressure) == 40, "wire size");

struct pstw_table_gone {
  struct pstw_header header;
  uint32_t table;
  uint32_t reason;  // FailureKind
};
static_assert(sizeof(struct pstw_table_gone) == 32, "wire size");

struct pstw_progress {  // header.request: the request that goes on.
  struct pstw_header header;
  uint64_t done_bytes;
  uint64_t total_bytes;
};
static_assert(sizeof(struct pstw_progress) == 40, "wire size");
