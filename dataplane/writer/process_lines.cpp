// SPDX-License-Identifier: Apache-2.0
#include "dataplane/writer/process_lines.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace penstock {
namespace {

constexpr std::size_t line_bytes_max = 1024;
constexpr int reads_max = 16;  // At once, so that a process that never stops talking holds nobody up.

}  // namespace

Result<ProcessLines> ProcessLines::open(UniqueFd& end) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{Errc::exhausted, errno, "pipe2"};
  ProcessLines lines;
  lines.pipe_ = UniqueFd(ends[0]);
  end = UniqueFd(ends[1]);
  // This end alone: the process may wait.
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return Error{Errc::io, errno, "fcntl"};
  return lines;
}

void ProcessLines::read(const Say& say) {
  std::array<char, 4096> some;
  for (int reads = 0; pipe_ && reads < reads_max; ++reads) {
    const ssize_t count = ::read(pipe_.get(), some.data(), some.size());
    if (count < 0) return;  // Nothing there.
    if (count == 0) return close(say);
    for (const char c : std::string_view(some.data(), static_cast<std::size_t>(count))) {
      if (c != '\n') partial_ += c;
      if ((c != '\n' && partial_.size() < line_bytes_max) || partial_.empty()) continue;
      say(partial_);
      partial_.clear();
    }
  }
}

void ProcessLines::close(const Say& say) {
  if (!pipe_) return;
  const UniqueFd last = std::exchange(pipe_, UniqueFd());
  std::array<char, 4096> some;
  const ssize_t count = ::read(last.get(), some.data(), some.size());
  if (count > 0) partial_.append(some.data(), static_cast<std::size_t>(count));
  for (std::size_t start = 0; start < partial_.size();) {
    const std::size_t end = std::min(partial_.find('\n', start), partial_.size());
    if (end > start) say(std::string_view(partial_).substr(start, end - start));
    start = end + 1;
  }
  partial_.clear();
}

}  // namespace penstock
