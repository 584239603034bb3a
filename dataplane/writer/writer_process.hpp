// SPDX-License-Identifier: Apache-2.0
// WriterProcess: one penstock-writer, held by its pidfd. Started by the calling thread, whose end kills it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/writer/writer_channel.hpp"

namespace penstock {

// A client of an MPS server shares the fate of its other clients, so nobody that owns or fills frames may be one. A driver
// looks for the server where $CUDA_MPS_PIPE_DIRECTORY says, or in /tmp/nvidia-mps: of this process, from now on, nowhere.
// Writers are started so anyway. REQUIRES: no other thread yet, no driver loaded.
void keep_out_of_mps();

// What is started, again and again: a program held open, so that each start runs the same one.
struct WriterProgram {
  std::shared_ptr<const UniqueFd> file;
  std::vector<std::string> arguments;  // Without the program's name.

  static Result<WriterProgram> open(const std::string& path, std::vector<std::string> arguments);
};

// How a process ended; for the log.
struct WriterExit {
  int signal = 0;     // Not 0: killed by it.
  int exit_code = 0;  // Otherwise.
};

class WriterProcess {
 public:
  // With an empty signal mask, default signals, stdin from /dev/null, the given socket as number 3, the caller's
  // environment less what belongs to the service alone; `error` as its standard error, the caller's own without one. Takes
  // about a millisecond.
  static Result<WriterProcess> spawn(const WriterProgram& program, UniqueFd socket, UniqueFd error = {});
  WriterProcess() = default;
  WriterProcess(WriterProcess&& other) noexcept;
  WriterProcess& operator=(WriterProcess&&) = delete;
  // REQUIRES: nothing; a process that is not reaped stays a zombie until the service ends.
  ~WriterProcess() = default;

  // Readable when the process has ended.
  int pidfd() const { return pidfd_.get(); }
  pid_t pid() const { return pid_; }
  void kill() const;
  // Never waits; empty while it runs.
  std::optional<WriterExit> reap();
  // Waits for its end, at most so long.
  std::optional<WriterExit> reap_within(int milliseconds);

 private:
  WriterProcess(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  pid_t pid_ = 0;
  UniqueFd pidfd_;
};

}  // namespace penstock
