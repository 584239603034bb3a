// SPDX-License-Identifier: Apache-2.0
#include "dataplane/writer/writer_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/writer/protocol.hpp"

namespace penstock {
namespace {

// The service manager's sockets are the service's alone. Everything else is carried on, MPS's place excepted.
constexpr std::array<std::string_view, 6> kept_from_writers = {
    "NOTIFY_SOCKET=",  "LISTEN_FDS=",    "LISTEN_PID=",
    "LISTEN_FDNAMES=", "WATCHDOG_USEC=", "CUDA_MPS_PIPE_DIRECTORY="};

constexpr const char* mps_variable = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* mps_nowhere = "/dev/null/penstock-is-no-client-of-mps";  // No folder can be there.

// `no_mps` outlives the answer.
std::vector<char*> environment(std::string& no_mps) {
  std::vector<char*> kept{no_mps.data()};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    bool keep = true;
    for (const std::string_view name : kept_from_writers) keep = keep && !text.starts_with(name);
    if (keep) kept.push_back(*entry);
  }
  kept.push_back(nullptr);
  return kept;
}

class SpawnSettings {
 public:
  SpawnSettings() {
    CHECK(::posix_spawnattr_init(&attributes) == 0 && ::posix_spawn_file_actions_init(&actions) == 0);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    CHECK(::posix_spawnattr_setsigmask(&attributes, &none) == 0);
    CHECK(::posix_spawnattr_setsigdefault(&attributes, &all) == 0);
    CHECK(::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) == 0);
  }
  ~SpawnSettings() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
};

}  // namespace

void keep_out_of_mps() { ::setenv(mps_variable, mps_nowhere, 1); }

Result<WriterProgram> WriterProgram::open(const std::string& path, std::vector<std::string> arguments) {
  UniqueFd file(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!file) return Error{Errc::not_found, errno, "open penstock-writer"};
  return WriterProgram{.file = std::make_shared<const UniqueFd>(std::move(file)),
                       .arguments = std::move(arguments)};
}

WriterProcess::WriterProcess(WriterProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), pidfd_(std::move(other.pidfd_)) {}

Result<WriterProcess> WriterProcess::spawn(const WriterProgram& program, UniqueFd socket, UniqueFd error) {
  SpawnSettings settings;
  CHECK(::posix_spawn_file_actions_addopen(&settings.actions, 0, "/dev/null", O_RDONLY, 0) == 0);
  CHECK(::posix_spawn_file_actions_adddup2(&settings.actions, socket.get(), writer_socket_number) == 0);
  if (error) CHECK(::posix_spawn_file_actions_adddup2(&settings.actions, error.get(), STDERR_FILENO) == 0);
  std::string name = "penstock-writer";
  std::vector<std::string> words = program.arguments;
  std::vector<char*> arguments = {name.data()};
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string no_mps = std::string(mps_variable) + '=' + mps_nowhere;
  const std::vector<char*> variables = environment(no_mps);

  // A descriptor of the program might have the number that the socket gets: it has to be opened by another one.
  UniqueFd file(::fcntl(program.file->get(), F_DUPFD_CLOEXEC, writer_socket_number + 1));
  if (!file) return Error{Errc::exhausted, errno, "start penstock-writer"};
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, path.c_str(), &settings.actions, &settings.attributes,
                                   arguments.data(), variables.data());
  if (failed != 0) return Error{Errc::exhausted, failed, "start penstock-writer"};
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd) return WriterProcess(pid, std::move(pidfd));
  // It can't be watched. It is our child and not reaped, so its number is still its own.
  const int why = errno;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return Error{Errc::exhausted, why, "pidfd_open"};
}

void WriterProcess::kill() const {
  if (pidfd_) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

std::optional<WriterExit> WriterProcess::reap() {
  if (!pidfd_) return WriterExit{};
  siginfo_t info{};
  const int waited = ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
  if (waited == 0 && info.si_pid == 0) return std::nullopt;
  // ECHILD: whoever ignores SIGCHLD for this process has reaped it; it is gone when its pidfd says so.
  if (waited != 0) {
    pollfd ended{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ended, 1, 0) != 1) return std::nullopt;
    pidfd_.reset();
    return WriterExit{};
  }
  pidfd_.reset();
  if (info.si_code == CLD_EXITED) return WriterExit{.exit_code = info.si_status};
  return WriterExit{.signal = info.si_status};
}

std::optional<WriterExit> WriterProcess::reap_within(int milliseconds) {
  pollfd ended{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  if (pidfd_) (void)::poll(&ended, 1, milliseconds);
  return reap();
}

}  // namespace penstock
