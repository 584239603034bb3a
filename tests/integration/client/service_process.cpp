// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/client/service_process.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "tests/support/eventually.hpp"

namespace penstock::test {

std::filesystem::path service_program() {
  const char* const build = std::getenv("PENSTOCK_BUILD_DIR");
  if (build == nullptr) return {};
  const auto program = std::filesystem::path(build) / "bin/penstockd";
  return std::filesystem::exists(program) ? program : std::filesystem::path();
}

ServiceProcess::ServiceProcess(const ServiceOptions& options, const std::filesystem::path& parent)
    : folder_(parent), environment_(options.environment) {
  const std::string config =
      "[service]\nsocket = \"" + socket() + "\"\nsocket_group = \"\"\nrevoke_deadline = \"300ms\"\n" +
      "[metrics]\nlisten = \"\"\n[device." + options.device + "]\nenabled = \"on\"\ncapacity = \"" +
      std::to_string(options.capacity_bytes) + "\"\npage_bytes = \"" + std::to_string(options.page_bytes) +
      "\"\n" + options.more;
  folder_.write("penstock.toml", std::string_view(config));
  start();
}

ServiceProcess::~ServiceProcess() { kill(); }

void ServiceProcess::start() {
  CHECK(pid_ < 0);
  const std::string program = service_program(), config = folder_ / "penstock.toml", log = folder_ / "log";
  CHECK(!program.empty());
  std::filesystem::remove(socket());
  // By its first value, as getenv does.
  std::vector<char*> environment;
  for (std::string& one : environment_) environment.push_back(one.data());
  for (char** one = ::environ; *one != nullptr; ++one) environment.push_back(*one);
  environment.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execle(program.c_str(), program.c_str(), "--config", config.c_str(), nullptr, environment.data());
    ::_exit(127);
  }
  const bool ready =
      eventually([&] { return listens() || ::waitpid(pid_, nullptr, WNOHANG) == pid_; }) && listens();
  if (!ready) std::fprintf(stderr, "penstockd does not listen:\n%s\n", this->log().c_str());
  CHECK(ready);
}

bool ServiceProcess::listens() const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket().copy(address.sun_path, sizeof address.sun_path - 1);
  const UniqueFd one(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return ::connect(one.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void ServiceProcess::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void ServiceProcess::pause() {
  CHECK(::kill(pid_, SIGSTOP) == 0);
  int status = 0;
  CHECK(::waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status));  // All its threads.
}

void ServiceProcess::go_on() { CHECK(::kill(pid_, SIGCONT) == 0); }

std::string ServiceProcess::log() const {
  std::ifstream file(folder_ / "log");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace penstock::test
