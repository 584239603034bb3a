// SPDX-License-Identifier: Apache-2.0
#include "tests/support/faulty_reader.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "dataplane/base/check.hpp"

namespace penstock::test {

void FaultyReader::answer_next(std::int32_t result, std::uint32_t count, std::optional<ReadPath> path) {
  for (std::uint32_t index = 0; index < count; ++index) scripted_.push_back({.result = result, .path = path});
}

Result<FileId> FaultyReader::add(int cached_fd, int direct_fd) { return reader_->add(cached_fd, direct_fd); }

Result<> FaultyReader::submit(std::span<const ReadOp> ops) {
  if (refused()) return Error{Errc::unsupported, EPERM, "submit"};
  if (busy_ > 0) {
    --busy_;
    return Error{Errc::busy, 0, "submit"};
  }
  for (const ReadOp& op : ops) {
    Known known{.op = op, .before = {op.destination, op.destination + op.extent.length}};
    CHECK(known_.emplace(op.tag, std::move(known)).second);
    history_.push_back(op);
  }
  ++submissions_;
  return reader_->submit(ops);
}

Result<std::size_t> FaultyReader::reap(std::span<ReadDone> done) {
  if (refused()) return lose_everything();
  const auto count = reader_->reap(done);
  if (count) std::ranges::for_each(done.first(*count), [this](ReadDone& one) { distort(one); });
  return count;
}

// As a ring does whose entries were never taken: nothing is told, and nothing is written afterwards.
Result<std::size_t> FaultyReader::lose_everything() {
  std::array<ReadDone, 16> lost;
  while (reader_->in_flight() > 0) CHECK(reader_->reap(lost));
  return Error{Errc::unsupported, EPERM, "reap"};
}

void FaultyReader::distort(ReadDone& done) {
  const auto found = known_.find(done.tag);
  CHECK(found != known_.end());
  const Known known = std::move(found->second);
  known_.erase(found);

  const auto tell = [&](std::int32_t result) {
    const std::size_t kept = result > 0 ? static_cast<std::size_t>(result) : 0;
    std::memcpy(known.op.destination + kept, known.before.data() + kept, known.before.size() - kept);
    done.result = result;
  };
  const Extent& extent = known.op.extent;
  if (!scripted_.empty() && scripted_.front().path.value_or(known.op.path) == known.op.path) {
    tell(scripted_.front().result);
    scripted_.pop_front();
  } else if (end_at_ && extent.offset <= *end_at_ && *end_at_ < extent.end()) {
    end_at_.reset();
    tell(0);
  } else if (limit_ > 0 && done.result > static_cast<std::int32_t>(limit_)) {
    ++cut_;
    tell(static_cast<std::int32_t>(limit_));
  }
}

}  // namespace penstock::test
