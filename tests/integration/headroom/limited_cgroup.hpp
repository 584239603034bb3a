// SPDX-License-Identifier: Apache-2.0
// A real memory cgroup with a limit, and a process in it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace penstock::test {

class LimitedCgroup {
 public:
  // A child of this process's own memory cgroup, of v1 or v2; null, with the missing requirement in `why`, when there can't be one.
  static std::unique_ptr<LimitedCgroup> make(std::uint64_t limit_bytes, std::string& why);
  ~LimitedCgroup();
  LimitedCgroup(const LimitedCgroup&) = delete;
  LimitedCgroup& operator=(const LimitedCgroup&) = delete;

  // Runs `body` in a process of its own that is limited, and returns its wait status; its exit code is what body
  // returned. REQUIRES: the caller has one thread.
  int run(const std::function<int()>& body) const;
  // Moves the calling process into it.
  bool enter() const { return write("cgroup.procs", "0"); }
  std::optional<std::uint64_t> read_number(const std::string& file) const;
  // The kernel's number of it: the inode number of its folder.
  std::uint64_t id() const;
  // How often the kernel killed in there.
  std::uint64_t kills() const;

 private:
  LimitedCgroup(std::string path, bool v1, std::string turned_on_in)
      : path_(std::move(path)), v1_(v1), turned_on_in_(std::move(turned_on_in)) {}
  bool write(const std::string& file, const std::string& text) const;

  std::string path_;
  bool v1_;
  std::string turned_on_in_;  // Where the controller was passed on for this one; empty if it was before.
};

}  // namespace penstock::test
