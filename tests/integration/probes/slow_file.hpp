// SPDX-License-Identifier: Apache-2.0
// One file on a file system (FUSE) that keeps each read waiting, and says for how long it did.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/mapping.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {

class SlowFile {
 public:
  // Of zeroes. Null, with the missing requirement, when there can't be one. Served by a process of its own.
  static std::unique_ptr<SlowFile> make(std::uint64_t bytes, Nanoseconds each_read, std::string& missing);
  SlowFile(const SlowFile&) = delete;
  SlowFile& operator=(const SlowFile&) = delete;
  ~SlowFile();

  std::filesystem::path path() const { return folder_ / "checkpoint"; }
  std::uint64_t reads() const { return told().reads; }
  // From when the server had a read until it answered, all together: less than those who waited for them did.
  Nanoseconds waited() const { return Nanoseconds(told().waited_ns); }

 private:
  struct Told {
    std::uint64_t reads, waited_ns;
  };
  SlowFile() = default;
  Told& told() const { return *reinterpret_cast<Told*>(told_.data()); }
  void serve(int device, std::uint64_t bytes, Nanoseconds each_read) const;

  TemporaryFolder folder_;
  Mapping told_;  // Shared with the server.
  int server_ = -1;
};

}  // namespace penstock::test
