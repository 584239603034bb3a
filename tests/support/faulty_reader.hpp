// SPDX-License-Identifier: Apache-2.0
// FaultyReader: a reader that misbehaves as kernels and filesystems do, on top of one that works.
//
// What a cut read would not have written is put back, so that a caller that takes a short read for a whole one
// keeps its poison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/io/file_reader.hpp"

namespace penstock::test {

class FaultyReader final : public FileReader {
 public:
  explicit FaultyReader(std::unique_ptr<FileReader> reader) : reader_(std::move(reader)) {}

  // Every completion tells at most `bytes`. 0: no limit.
  void limit_results(std::uint32_t bytes) { limit_ = bytes; }
  // The next `count` completions of that path tell `result`, and nothing is read.
  void answer_next(std::int32_t result, std::uint32_t count = 1, std::optional<ReadPath> path = std::nullopt);
  // The first read that covers the file offset tells 0.
  void end_at(std::uint64_t offset) { end_at_ = offset; }
  // From the given number of submissions on, submit and reap answer Errc::unsupported.
  void refuse_after(std::uint32_t submissions) { refuse_after_ = submissions; }
  // submit answers Errc::busy so many times.
  void be_busy(std::uint32_t times) { busy_ = times; }

  // Completions that told less than was read.
  std::uint64_t cut() const { return cut_; }
  // Every op that was submitted.
  const std::vector<ReadOp>& history() const { return history_; }

  Result<FileId> add(int cached_fd, int direct_fd) override;
  void remove(FileId file) override { reader_->remove(file); }
  Result<> submit(std::span<const ReadOp> ops) override;
  Result<std::size_t> reap(std::span<ReadDone> done) override;
  void cancel_all() override { reader_->cancel_all(); }
  std::size_t in_flight() const override { return reader_->in_flight(); }
  std::size_t queue_depth() const override { return reader_->queue_depth(); }
  int event_fd() const override { return reader_->event_fd(); }
  std::string_view backend() const override { return reader_->backend(); }

 private:
  struct Scripted {
    std::int32_t result;
    std::optional<ReadPath> path;
  };
  struct Known {
    ReadOp op;
    std::vector<std::byte> before;  // What the destination held.
  };
  bool refused() const { return refuse_after_ && submissions_ >= *refuse_after_; }
  void distort(ReadDone& done);
  Result<std::size_t> lose_everything();

  std::unique_ptr<FileReader> reader_;
  std::uint32_t limit_ = 0;
  std::deque<Scripted> scripted_;
  std::optional<std::uint64_t> end_at_;
  std::optional<std::uint32_t> refuse_after_;
  std::uint32_t busy_ = 0;
  std::uint32_t submissions_ = 0;
  std::uint64_t cut_ = 0;
  std::vector<ReadOp> history_;
  std::unordered_map<std::uint64_t, Known> known_;  // By tag.
};

}  // namespace penstock::test
