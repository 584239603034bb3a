// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/pressure/neighbour.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"

namespace penstock::bench {
namespace {

// Answers each number of bytes with the seconds that taking them took; 0 gives everything back.
int serve(int channel, std::uint64_t most_bytes) {
  void* const memory =
      ::mmap(nullptr, most_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 1;
  ::madvise(memory, most_bytes, MADV_HUGEPAGE);
  std::uint64_t bytes = 0;
  while (::read(channel, &bytes, sizeof bytes) == static_cast<ssize_t>(sizeof bytes)) {
    const Nanoseconds start = monotonic_now();
    const int done = bytes == 0 ? ::madvise(memory, most_bytes, MADV_DONTNEED)
                                : ::madvise(memory, bytes, MADV_POPULATE_WRITE);
    if (done != 0) return 1;
    const double seconds = std::chrono::duration<double>(monotonic_now() - start).count();
    if (::write(channel, &seconds, sizeof seconds) != static_cast<ssize_t>(sizeof seconds)) return 1;
  }
  return 0;
}

}  // namespace

Neighbour::Neighbour(std::uint64_t most_bytes) {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  channel_ = UniqueFd(ends[0]);
  const UniqueFd other(ends[1]);
  process_ = ::fork();
  CHECK(process_ >= 0);
  if (process_ > 0) return;
  channel_.reset();
  ::_exit(serve(other.get(), most_bytes));
}

Neighbour::~Neighbour() {
  channel_.reset();
  ::waitpid(process_, nullptr, 0);
}

double Neighbour::ask(std::uint64_t bytes) {
  double seconds = 0;
  CHECK(::write(channel_.get(), &bytes, sizeof bytes) == static_cast<ssize_t>(sizeof bytes));
  // Nothing comes from one that was killed for want of memory.
  CHECK(::read(channel_.get(), &seconds, sizeof seconds) == static_cast<ssize_t>(sizeof seconds));
  return seconds;
}

double Neighbour::take(std::uint64_t bytes) {
  CHECK(bytes > 0);
  return ask(bytes);
}

void Neighbour::give_all() { ask(0); }

}  // namespace penstock::bench
