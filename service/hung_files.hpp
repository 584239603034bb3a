// SPDX-License-Identifier: Apache-2.0
// The end of a process that has files open on a filesystem that doesn't answer (FUSE, NFS).
#pragma once

namespace penstock {

// Ends the process at once. The kernel closes its files, and closing one on a hung FUSE mount blocks without an end, also
// for SIGKILL: the service manager would see a process that never ends. So a child that shares the descriptor table
// outlives this process and does the closing; where it hangs, it keeps nothing but those files.
[[noreturn]] void exit_past_hung_files(int code);

}  // namespace penstock
