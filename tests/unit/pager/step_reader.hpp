// SPDX-License-Identifier: Apache-2.0
// StepReader: a FileReader that reads at once and tells when it is told to. One thread, no surprise.
#pragma once

#include <deque>
#include <unordered_map>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/io/file_reader.hpp"

namespace penstock::test {

class StepReader final : public FileReader {
 public:
  StepReader();

  // Completions wait from now on.
  void hold() { held_ = true; }
  // The next `count` completions, oldest first, may be reaped; hold() stays.
  void step(std::size_t count = 1);
  void release();
  // Cancelling has no effect from now on, as with a file server that never answers.
  void ignore_cancels() { deaf_ = true; }
  // A read that ends at the file's end leaves rubbish behind it, up to the length that was asked for, as a device may.
  void scribble_behind_ends() { scribbles_ = true; }
  // The next `count` reads that are submitted answer `result` and read nothing.
  void answer_next(std::int32_t result, std::size_t count = 1);

  const std::deque<ReadOp>& history() const { return history_; }

  Result<FileId> add(int cached_fd, int direct_fd) override;
  void remove(FileId file) override;
  Result<> submit(std::span<const ReadOp> ops) override;
  Result<std::size_t> reap(std::span<ReadDone> done) override;
  void cancel_all() override;
  std::size_t in_flight() const override { return waiting_.size() + done_.size(); }
  std::size_t queue_depth() const override { return 64; }
  int event_fd() const override { return wake_.fd(); }
  std::string_view backend() const override { return "step"; }

 private:
  std::int32_t read(const ReadOp& op);

  EventFd wake_;
  std::unordered_map<FileId, int> files_;
  std::uint32_t last_file_ = 0;
  std::deque<ReadDone> waiting_;  // Read, not to be told yet.
  std::deque<ReadDone> done_;
  std::deque<std::int32_t> scripted_;
  std::deque<ReadOp> history_;
  bool held_ = false;
  bool deaf_ = false;
  bool scribbles_ = false;
};

}  // namespace penstock::test
