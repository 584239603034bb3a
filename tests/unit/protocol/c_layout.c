// SPDX-License-Identifier: Apache-2.0
// The layouts are C11: this file would not compile otherwise. It hands values to the C++ tests.
#include "service/protocol/blob_wire.h"
#include "service/protocol/copy_wire.h"
#include "service/protocol/device_wire.h"
#include "service/protocol/file_wire.h"
#include "service/protocol/session_region.h"
#include "service/protocol/wire.h"

uint64_t c_pin_word(uint32_t state, uint32_t count);
uint64_t c_unpinned(uint64_t word);

uint64_t c_pin_word(uint32_t state, uint32_t count) { return pstw_pin_word(state, count); }
uint64_t c_unpinned(uint64_t word) { return pstw_unpinned(word); }
