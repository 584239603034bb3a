// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/probes/slow_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/unique_fd.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t file_node = 2;

fuse_attr attributes_of(std::uint64_t node, std::uint64_t bytes) {
  fuse_attr attributes{};
  attributes.ino = node;
  attributes.size = node == file_node ? bytes : 0;
  attributes.mode = node == file_node ? S_IFREG | 0644 : S_IFDIR | 0755;
  attributes.nlink = 1;
  attributes.blksize = 4096;
  return attributes;
}

template <class Answer>
std::vector<char> bytes_of(const Answer& answer) {
  const char* const first = reinterpret_cast<const char*>(&answer);
  return {first, first + sizeof answer};
}

// What a question that is none of reading is answered with; nothing if it wants no answer.
std::vector<char> body_of(const fuse_in_header& asked, std::uint64_t bytes) {
  if (asked.opcode == FUSE_INIT) {
    fuse_init_out answer{};
    answer.major = 7;
    answer.minor = 31;
    answer.max_write = 128 * 1024;
    answer.max_background = 16;
    answer.congestion_threshold = 12;
    return bytes_of(answer);
  }
  if (asked.opcode == FUSE_LOOKUP) {
    fuse_entry_out answer{};
    answer.nodeid = file_node;
    answer.entry_valid = 3600;
    answer.attr = attributes_of(file_node, bytes);
    return bytes_of(answer);
  }
  if (asked.opcode == FUSE_GETATTR) {
    fuse_attr_out answer{};
    answer.attr_valid = 3600;
    answer.attr = attributes_of(asked.nodeid, bytes);
    return bytes_of(answer);
  }
  if (asked.opcode == FUSE_OPEN) {
    fuse_open_out answer{};
    answer.open_flags = FOPEN_KEEP_CACHE;
    return bytes_of(answer);
  }
  return {};
}

void answer(int device, std::uint64_t unique, std::vector<char> body, int error = 0) {
  fuse_out_header header{};
  header.len = static_cast<std::uint32_t>(sizeof header + body.size());
  header.error = -error;
  header.unique = unique;
  const std::vector<char> head = bytes_of(header);
  body.insert(body.begin(), head.begin(), head.end());
  (void)!::write(device, body.data(), body.size());
}

}  // namespace

void SlowFile::serve(int device, std::uint64_t bytes, Nanoseconds each_read) const {
  std::vector<char> question(1 << 20);
  while (true) {
    const ssize_t got = ::read(device, question.data(), question.size());
    if (got < 0 && errno == ENODEV) return;  // It is unmounted.
    if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) continue;
    fuse_in_header asked{};
    std::memcpy(&asked, question.data(), sizeof asked);
    if (asked.opcode == FUSE_FORGET || asked.opcode == FUSE_BATCH_FORGET || asked.opcode == FUSE_INTERRUPT)
      continue;
    if (asked.opcode == FUSE_READ) {
      const Nanoseconds begun = monotonic_now();
      fuse_read_in read{};
      std::memcpy(&read, question.data() + sizeof asked, sizeof read);
      const timespec pause{.tv_sec = 0, .tv_nsec = each_read.count()};
      ::clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
      ++told().reads;
      told().waited_ns += static_cast<std::uint64_t>((monotonic_now() - begun).count());
      const std::uint64_t left = bytes - std::min<std::uint64_t>(bytes, read.offset);
      answer(device, asked.unique, std::vector<char>(std::min<std::uint64_t>(read.size, left)));
      continue;
    }
    const bool known = asked.opcode == FUSE_FLUSH || asked.opcode == FUSE_RELEASE;
    std::vector<char> body = body_of(asked, bytes);
    const int error = known || !body.empty() ? 0 : ENOSYS;
    answer(device, asked.unique, std::move(body), error);
  }
}

std::unique_ptr<SlowFile> SlowFile::make(std::uint64_t bytes, Nanoseconds each_read, std::string& missing) {
  const UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) {
    missing = "/dev/fuse";
    return nullptr;
  }
  std::unique_ptr<SlowFile> file(new SlowFile);
  const UniqueFd words(::memfd_create("told", MFD_CLOEXEC));
  if (!words || ::ftruncate(words.get(), 4096) != 0) {
    missing = "a memfd";
    return nullptr;
  }
  Result<Mapping> told = Mapping::shared(words.get(), 4096, Access::read_write);
  if (told) file->told_ = *std::move(told);
  const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", device.get());
  // In a namespace of this process alone: whatever happens to it, nothing stays mounted.
  if (!told || ::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("penstock-test", file->folder_.path().c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) !=
          0) {
    missing = "root, to mount a FUSE file system";
    return nullptr;
  }
  file->server_ = ::fork();
  if (file->server_ == 0) {
    file->serve(device.get(), bytes, each_read);
    ::_exit(0);
  }
  return file;
}

SlowFile::~SlowFile() {
  ::umount2(folder_.path().c_str(), MNT_DETACH);
  if (server_ <= 0) return;
  ::kill(server_, SIGKILL);
  ::waitpid(server_, nullptr, 0);
}

}  // namespace penstock::test
