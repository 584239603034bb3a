// SPDX-License-Identifier: Apache-2.0
// SharingTest: whether a GPU's memory can be shared, found out before the GPU becomes a device, by a process of its own:
// penstock-writer with `--self-test`. The service itself holds no context, and is not held up by a driver that hangs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/gpu/self_test.hpp"
#include "dataplane/writer/process_lines.hpp"
#include "dataplane/writer/writer_process.hpp"

namespace penstock {

inline constexpr std::string_view self_test_option = "--self-test";

struct SharingAnswer {
  enum class Kind : std::uint8_t {
    shares,
    cannot_share,  // It never will, as the driver is now.
    unknown,       // The process died or did not answer in time, or something else failed, which may pass.
  };
  Kind kind = Kind::unknown;
  std::string why;  // Of anything but `shares`.
};

class SharingTest {
 public:
  // Arguments of `program`: self_test_option, and a writer's. Starts the process and does not wait for it; the calling
  // thread's end kills it.
  static SharingTest start(const WriterProgram& program);
  // Waits, until `end` at most, and then kills it. `say` is told what the process says on its standard error.
  SharingAnswer finish(std::chrono::steady_clock::time_point end, const ProcessLines::Say& say);

 private:
  std::optional<WriterProcess> process_;
  UniqueFd socket_;
  ProcessLines lines_;
  std::string failed_;  // Why it could not be started.
};

// In the process: runs the test and sends the answer through `socket`. Whether it could be sent.
bool answer_sharing_test(GpuVendor vendor, const std::string& id, int socket);

}  // namespace penstock
