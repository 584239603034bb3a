// SPDX-License-Identifier: Apache-2.0
#include "tests/support/drive_reader.hpp"

#include <poll.h>

#include <algorithm>
#include <array>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/units.hpp"

namespace penstock::test {
namespace {

constexpr Nanoseconds patience = std::chrono::seconds(20);

}  // namespace

bool wait_readable(int fd, int milliseconds) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, milliseconds) == 1;
}

std::vector<ReadDone> reap_all(FileReader& reader, std::size_t count) {
  std::vector<ReadDone> all;
  const Nanoseconds deadline = monotonic_now() + patience;
  while (all.size() < count) {
    std::array<ReadDone, 16> done;
    const auto reaped = reader.reap(done);
    CHECK(reaped);
    all.insert(all.end(), done.begin(), done.begin() + *reaped);
    if (all.size() < count && *reaped == 0) (void)wait_readable(reader.event_fd(), 1000);
    CHECK(monotonic_now() < deadline);
  }
  CHECK(all.size() == count);
  return all;
}

std::int32_t read_once(FileReader& reader, const ReadOp& op) {
  CHECK(reader.submit(std::span(&op, 1)));
  const ReadDone done = reap_all(reader, 1).front();
  CHECK(done.tag == op.tag);
  return done.result;
}

std::vector<ReadStream::Answer> drain(ReadStream& stream) {
  std::vector<ReadStream::Answer> all;
  Nanoseconds deadline = monotonic_now() + patience;
  while (stream.unanswered() > 0) {
    std::array<ReadStream::Answer, 16> answers;
    const Nanoseconds now = monotonic_now();
    const std::size_t count = stream.poll(now, answers);
    all.insert(all.end(), answers.begin(), answers.begin() + count);
    if (count > 0) deadline = now + patience;
    CHECK(now < deadline);
    if (count == answers.size() || stream.unanswered() == 0) continue;
    const Nanoseconds wake = stream.next_deadline().value_or(now + std::chrono::seconds(1));
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(wake - now);
    (void)wait_readable(stream.event_fd(), static_cast<int>(std::max<std::int64_t>(wait.count(), 0)));
  }
  return all;
}

void push_whole(ReadStream& stream, StreamFile file, std::uint64_t file_bytes, std::uint64_t step,
                std::uint32_t granule, std::span<std::byte> destination) {
  CHECK(destination.size() >= round_up(file_bytes, granule));
  for (std::uint64_t at = 0; at < file_bytes; at += step) {
    const std::uint64_t needed = std::min(step, file_bytes - at);
    stream.push({.file = file,
                 .extent = {.offset = at, .length = round_up(needed, granule)},
                 .needed_bytes = needed,
                 .destination = destination.data() + at,
                 .tag = at});
  }
}

}  // namespace penstock::test
