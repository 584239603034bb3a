// SPDX-License-Identifier: Apache-2.0
// A cgroup of v2 below the root of a guest, where nobody else makes any.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "dataplane/base/unique_fd.hpp"

namespace penstock::test {

class GuestCgroup {
 public:
  // Below `parent`, or the root; the memory controller is passed on to it. Aborts when it can't be made.
  explicit GuestCgroup(const std::string& name, const GuestCgroup* parent = nullptr);
  ~GuestCgroup();
  GuestCgroup(const GuestCgroup&) = delete;
  GuestCgroup& operator=(const GuestCgroup&) = delete;

  const std::string& path() const { return path_; }
  int directory() const { return directory_.get(); }
  // Aborts when the kernel refuses.
  void write(const std::string& file, const std::string& text) const;
  void write(const std::string& file, std::uint64_t number) const { write(file, std::to_string(number)); }
  // Whether the kernel took it.
  bool try_write(const std::string& file, const std::string& text) const;
  // One line of memory.events or memory.stat.
  std::uint64_t figure(const std::string& file, const std::string& key) const;
  // Runs `body` in a child process that is in this cgroup, and returns what it returned.
  std::string run(const std::function<std::string()>& body) const;
  // Moves the calling process here, or to the root.
  void enter() const { write("cgroup.procs", "0"); }
  static void leave();

 private:
  std::string path_;
  UniqueFd directory_;
};

}  // namespace penstock::test
