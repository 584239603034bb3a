// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/probes/direct_reader.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"

namespace penstock::test {
namespace {

constexpr std::size_t read_bytes = 4 * mib;
constexpr int patience_ms = 20'000;

// Of the child: ends when it is killed, or when a read fails.
[[noreturn]] void read_for_ever(const char* path, int ended, std::byte* memory) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int fd = ::open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
  while (::pread(fd, memory, read_bytes, 0) > 0 && ::eventfd_write(ended, 1) == 0) {
  }
  ::_exit(1);
}

}  // namespace

AlignedBytes::AlignedBytes(std::size_t bytes)
    : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes))), bytes_(bytes) {
  CHECK(memory_);
  std::memset(memory_.get(), 0, bytes);
}

DirectReader::DirectReader(const std::filesystem::path& path)
    : reads_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(reads_);
  const AlignedBytes memory(read_bytes);
  process_ = ::fork();
  CHECK(process_ >= 0);
  if (process_ == 0) read_for_ever(path.c_str(), reads_.get(), memory.data());
}

DirectReader::~DirectReader() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

void DirectReader::pause() {
  CHECK(::kill(process_, SIGSTOP) == 0);
  int status = 0;
  CHECK(::waitpid(process_, &status, WUNTRACED) == process_ && WIFSTOPPED(status));
  eventfd_t heard = 0;
  (void)::eventfd_read(reads_.get(), &heard);
}

bool DirectReader::resume() {
  CHECK(::kill(process_, SIGCONT) == 0);
  return reads();
}

bool DirectReader::reads() {
  pollfd wait{.fd = reads_.get(), .events = POLLIN, .revents = 0};
  eventfd_t heard = 0;
  return ::poll(&wait, 1, patience_ms) == 1 && ::eventfd_read(reads_.get(), &heard) == 0;
}

}  // namespace penstock::test
