// SPDX-License-Identifier: Apache-2.0
// What the fake NVML shows to programs that a test only starts: a file, $PENSTOCK_FAKE_NVML, read again at each count of
// devices. Replace it by a rename. One word and its values a line:
//
//   device UUID BUS TOTAL   and what follows is of this device:
//   part UUID TOTAL         a MIG part of it, of which then follows:
//   used BYTES              added up
//   counted DEVICE          used bytes as the fake libcuda.so.1 counts them, of a device of its machine
//   reserved BYTES
//   process PID BYTES
//   memory ANSWER           to questions about its memory
//   lost                    it has no handle any more
//   hang                    each call hangs until the file says otherwise
//   init ANSWER             nvmlInit refuses
#pragma once

#include "tests/fakes/nvml/fake_nvml.hpp"

namespace penstock::test {

// Without the variable: does nothing. REQUIRES: the fake's mutex is held.
void follow_script(FakeNvml& fake);
// Whether the script says that calls hang now.
bool script_says_hang();

}  // namespace penstock::test
