// SPDX-License-Identifier: Apache-2.0
// What a device's writer is doing; written by the dataplane thread with relaxed stores, read by anyone. Never resets.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock {

enum class WriterState : std::uint8_t {
  starting,     // Takes commands; the process has not said yet that the device works.
  ready,        //
  lost,         // Its process is gone or going; another one will be started.
  quarantined,  // It died too often.
};

enum class WriterLoss : std::uint8_t {
  none,
  died,      // detail: the signal, or -1 - exit code.
  failed,    // It said so itself; detail: the driver's number.
  stalled,   // It did not answer in time.
  confused,  // It sent what it must not.
  unstarted  // No process could be made; detail: errno.
};

struct WriterStats {
  std::atomic<WriterState> state{WriterState::starting};
  std::atomic<WriterLoss> last_loss{WriterLoss::none};
  std::atomic<std::int32_t> last_detail{0};
  std::atomic<std::int32_t> pid{0};  // 0: no process.
  std::atomic<std::uint64_t> losses{0}, starts{0};
  std::atomic<std::uint64_t> free_bytes{0};  // Of the device, as its writer last saw them; 0: unknown.
};

}  // namespace penstock
