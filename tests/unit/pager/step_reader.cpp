// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pager/step_reader.hpp"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "dataplane/base/check.hpp"

namespace penstock::test {
namespace {

EventFd made() {
  Result<EventFd> event = EventFd::create();
  CHECK(event);
  return *std::move(event);
}

}  // namespace

StepReader::StepReader() : wake_(made()) {}

void StepReader::step(std::size_t count) {
  for (; count > 0 && !waiting_.empty(); --count) {
    done_.push_back(waiting_.front());
    waiting_.pop_front();
  }
  if (!done_.empty()) wake_.signal();
}

void StepReader::release() {
  held_ = false;
  step(waiting_.size());
}

void StepReader::answer_next(std::int32_t result, std::size_t count) {
  scripted_.insert(scripted_.end(), count, result);
}

Result<FileId> StepReader::add(int cached_fd, int) {
  const FileId id{++last_file_};
  files_.emplace(id, cached_fd);
  return id;
}

void StepReader::remove(FileId file) { CHECK(files_.erase(file) == 1); }

std::int32_t StepReader::read(const ReadOp& op) {
  if (!scripted_.empty()) {
    const std::int32_t result = scripted_.front();
    scripted_.pop_front();
    return result;
  }
  const ssize_t count =
      ::pread(files_.at(op.file), op.destination, op.extent.length, static_cast<off_t>(op.extent.offset));
  if (count < 0) return -errno;
  if (scribbles_) std::fill(op.destination + count, op.destination + op.extent.length, std::byte{0xee});
  return static_cast<std::int32_t>(count);
}

Result<> StepReader::submit(std::span<const ReadOp> ops) {
  if (in_flight() + ops.size() > queue_depth()) return Error{.code = Errc::busy, .operation = "submit"};
  for (const ReadOp& op : ops) {
    history_.push_back(op);
    waiting_.push_back({.tag = op.tag, .result = read(op)});
  }
  if (!held_) step(waiting_.size());
  return {};
}

Result<std::size_t> StepReader::reap(std::span<ReadDone> done) {
  wake_.consume();
  const std::size_t count = std::min(done.size(), done_.size());
  std::copy_n(done_.begin(), count, done.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  if (!done_.empty()) wake_.signal();
  return count;
}

void StepReader::cancel_all() {
  if (deaf_) return;
  for (ReadDone& one : waiting_) one.result = -ECANCELED;
  step(waiting_.size());
}

}  // namespace penstock::test
