// SPDX-License-Identifier: Apache-2.0
// Attaches the probes that the kernel allows and the configuration wants, and says once how well memory is watched.
#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/base/failure.hpp"
#include "service/config/config.hpp"
#include "service/control/kernel_watch.hpp"

namespace penstock {

// `alarm` outlives the watch.
// `descriptors`: how many the process may have open. Where they are few, all are left to clients and nothing is attached.
// FailureKind::configuration when probes.ebpf is "required" and the page cache can't be traced. Takes about 50 ms.
Outcome<std::unique_ptr<KernelWatch>> start_kernel_watch(const Config& config, std::uint64_t descriptors,
                                                         const EventFd& alarm);

}  // namespace penstock
