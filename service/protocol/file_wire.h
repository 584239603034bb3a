// SPDX-License-Identifier: Apache-2.0
// Messages of the control socket about files that the service reads into host buffers. As wire.h, which has their types.
#pragma once

#include "service/protocol/wire.h"

struct pstw_add_file {  // Flag PSTW_FILE_DIRECT. Descriptors: cached, then direct if flagged.
  struct pstw_header header;
  uint32_t name_bytes;
  uint32_t reserved;
  char name[PSTW_FILE_NAME_BYTES_MAX];  // For people.
};
static_assert(sizeof(struct pstw_add_file) == 288, "wire size");

struct pstw_file_reply {
  struct pstw_header header;
  uint64_t file;  // Handle, known to its session alone.
  uint64_t bytes;
};
static_assert(sizeof(struct pstw_file_reply) == 40, "wire size");

struct pstw_drop_file {
  struct pstw_header header;
  uint64_t file;
};

struct pstw_read_file {
  struct pstw_header header;
  uint64_t file;
  uint64_t file_offset;
  uint64_t buffer;
  uint64_t buffer_offset;
  uint64_t bytes;
  uint64_t timeout_ns;
};
static_assert(sizeof(struct pstw_read_file) == 72, "wire size");
