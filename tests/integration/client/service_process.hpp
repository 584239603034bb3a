// SPDX-License-Identifier: Apache-2.0
// A penstockd of a test's own, with one kind of device, in a folder of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/support/temporary_folder.hpp"

namespace penstock::test {

struct ServiceOptions {
  std::uint64_t capacity_bytes = 256u << 20;
  std::uint64_t page_bytes = 2u << 20;
  std::string more;  // Further lines of the configuration.
  std::string device = "host";
  std::vector<std::string> environment = {};  // "NAME=value", on top of this process's own.
};

// The program, where the build puts it; empty when it is not there.
std::filesystem::path service_program();

class ServiceProcess {
 public:
  // Starts it, and waits until it listens. Aborts, with its log, when it doesn't.
  explicit ServiceProcess(const ServiceOptions& options = {},
                          const std::filesystem::path& parent = std::filesystem::temp_directory_path());
  ~ServiceProcess();
  ServiceProcess(const ServiceProcess&) = delete;
  ServiceProcess& operator=(const ServiceProcess&) = delete;

  void start();
  void kill();   // As kill -9 does.
  void pause();  // SIGSTOP
  void go_on();  // SIGCONT
  pid_t pid() const { return pid_; }
  std::string socket() const { return folder_ / "penstock.sock"; }
  const TemporaryFolder& folder() const { return folder_; }
  std::string log() const;

 private:
  bool listens() const;

  TemporaryFolder folder_;
  std::vector<std::string> environment_;
  pid_t pid_ = -1;
};

}  // namespace penstock::test
