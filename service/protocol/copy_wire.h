// SPDX-License-Identifier: Apache-2.0
// The message about copies on GPUs that can't be shared, byte for byte; the rules of wire.h hold. PROTOCOL.md says what it
// means.
#pragma once

#include "service/protocol/wire.h"

// Memory of a GPU that is none of the devices, since it can't be shared: the client allocates it itself.
enum { PSTW_COPY_EXISTS = 1 };  // Flag: it is allocated already, and only counted.
struct pstw_book_copy {
  struct pstw_header header;
  char gpu[PSTW_DEVICE_ID_BYTES_MAX];
  uint32_t gpu_bytes;
  uint32_t reserved;
  uint64_t copy;   // The client's number, above zero.
  uint64_t bytes;  // All that the number stands for from now on; 0 gives it back.
};
static_assert(sizeof(struct pstw_book_copy) == 80, "wire size");
