// SPDX-License-Identifier: Apache-2.0
// A process that reads a file past the page cache, over and over.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <sys/types.h>

#include "dataplane/base/unique_fd.hpp"

namespace penstock::test {

// Zeros at the start of a page, as direct I/O wants its memory. `bytes` is a multiple of a page.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t bytes);
  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_;
};

class DirectReader {
 public:
  explicit DirectReader(const std::filesystem::path& path);
  ~DirectReader();  // Kills it and waits.
  DirectReader(const DirectReader&) = delete;
  DirectReader& operator=(const DirectReader&) = delete;

  // After this it is in no read, and reads no more until `resume`: what is resident stays so. A file system may serve a
  // direct read through the page cache.
  void pause();
  // False unless it has ended another read since.
  bool resume();
  // Whether it ends a read that was not heard of yet, or none for 20 s.
  bool reads();

 private:
  UniqueFd reads_;  // An eventfd: how many reads have ended.
  pid_t process_ = -1;
};

}  // namespace penstock::test
