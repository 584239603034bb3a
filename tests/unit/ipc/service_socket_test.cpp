// SPDX-License-Identifier: Apache-2.0
// The service's socket file, with real processes and real kills (case S04).
#include "service/ipc/service_socket.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock {
namespace {

namespace fs = std::filesystem;

class CaseS04 : public testing::Test {
 protected:
  CaseS04() {
    char name[] = "/tmp/penstock-s04-XXXXXX";
    directory_ = ::mkdtemp(name);
    fs::permissions(directory_, fs::perms(0755));
    path_ = directory_ / "penstock.sock";
  }
  ~CaseS04() override { fs::remove_all(directory_); }

  Outcome<ServiceSocket> listen(int backlog = 128, const std::string& group = "") const {
    return ServiceSocket::listen({.path = path_.string(), .group = group, .backlog = backlog});
  }
  mode_t mode() const {
    struct stat status {};
    return ::lstat(path_.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }
  // Returns 0 or the errno of connect.
  int connect() const {
    const UniqueFd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    return ::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  }

  fs::path directory_;
  fs::path path_;
};

// Runs `body` in a child; its result is the exit code.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(CaseS04, ARestartAfterKillNineTakesTheStaleFile) {
  ASSERT_EQ(128 + SIGKILL, in_child([&] {
              const auto first = listen();
              if (!first) return 1;
              ::raise(SIGKILL);
              return 2;
            }));
  ASSERT_TRUE(fs::is_socket(path_));
  ASSERT_EQ(ECONNREFUSED, connect());
  const auto second = listen();
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(0, connect());
}

TEST_F(CaseS04, ASecondStartLeavesTheFirstUndisturbed) {
  const auto first = listen();
  ASSERT_TRUE(first);
  EXPECT_EQ(7, in_child([&] {
              const auto second = listen();
              return !second && second.error().kind == FailureKind::already_running ? 7 : 1;
            }));
  EXPECT_EQ(0, connect());
  EXPECT_TRUE(fs::is_socket(path_));
}

TEST_F(CaseS04, OfTwentyStartsAtOnceOnAStaleFileExactlyOneRuns) {
  ASSERT_EQ(128 + SIGKILL, in_child([&] {
              const auto first = listen();
              ::raise(SIGKILL);
              return first ? 1 : 2;
            }));
  int gate[2], done[2];
  ASSERT_EQ(0, ::pipe(gate));
  ASSERT_EQ(0, ::pipe(done));
  std::vector<pid_t> children;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(gate[1]);
      char byte;
      [[maybe_unused]] const ssize_t ready = ::read(gate[0], &byte, 1);  // End of file: all start together.
      const auto mine = listen();
      const char verdict = mine ? 'y' : (mine.error().kind == FailureKind::already_running ? 'n' : '?');
      [[maybe_unused]] const ssize_t told = ::write(done[1], &verdict, 1);
      ::close(done[1]);
      ::pause();
      ::_exit(0);
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  ::close(done[1]);
  ::close(gate[1]);
  int running = 0, refused = 0, other = 0;
  for (int i = 0; i < 20; ++i) {
    char verdict = 0;
    ASSERT_EQ(1, ::read(done[0], &verdict, 1));
    ++(verdict == 'y' ? running : verdict == 'n' ? refused : other);
  }
  EXPECT_EQ(1, running);
  EXPECT_EQ(19, refused);
  EXPECT_EQ(0, other);
  for (const pid_t child : children) ::kill(child, SIGKILL);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  ::close(done[0]);
}

TEST_F(CaseS04, AFileADirectoryAndALinkAreRefusedAndUntouched) {
  std::ofstream(path_) << "precious";
  auto refused = listen();
  ASSERT_FALSE(refused);
  EXPECT_EQ(FailureKind::configuration, refused.error().kind);
  EXPECT_EQ(8u, fs::file_size(path_));
  fs::rename(path_, directory_ / "target");

  fs::create_symlink(directory_ / "target", path_);
  EXPECT_FALSE(listen());
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(8u, fs::file_size(directory_ / "target"));
  fs::remove(path_);

  fs::create_directory(path_);
  EXPECT_FALSE(listen());
  EXPECT_TRUE(fs::is_directory(path_));
}

TEST_F(CaseS04, AFullBacklogIsBusyNotStale) {
  // A foreign listener without our lock, whose backlog is full.
  const UniqueFd foreign(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path_.c_str());
  ASSERT_EQ(0, ::bind(foreign.get(), reinterpret_cast<sockaddr*>(&address), sizeof address));
  ASSERT_EQ(0, ::listen(foreign.get(), 0));
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(waiting.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) break;
  }
  ASSERT_EQ(EAGAIN, connect());
  const auto second = listen();
  ASSERT_FALSE(second);
  EXPECT_EQ(FailureKind::already_running, second.error().kind);
  EXPECT_TRUE(fs::is_socket(path_));
}

TEST_F(CaseS04, TheModeIsRightUnderEveryUmask) {
  for (const mode_t mask : {mode_t{000}, mode_t{022}, mode_t{077}}) {
    const mode_t old = ::umask(mask);
    {
      const auto open_to_group = listen(128, "root");
      ASSERT_TRUE(open_to_group);
      EXPECT_EQ(mode_t{0660}, mode()) << "umask " << mask;
    }
    EXPECT_FALSE(fs::exists(path_)) << "a clean stop removes the name";
    {
      const auto own = listen(128, "no-such-group-anywhere");
      ASSERT_TRUE(own);
      EXPECT_EQ(mode_t{0600}, mode()) << "umask " << mask;
      EXPECT_NE(std::string::npos, own->warning().find("no-such-group-anywhere"));
    }
    EXPECT_EQ(mask, ::umask(old));
  }
}

TEST_F(CaseS04, MembersConnectAndOthersAreDenied) {
  if (::geteuid() != 0) GTEST_SKIP() << "requires root to become another user";
  const group* users = ::getgrnam("daemon");
  if (users == nullptr) GTEST_SKIP() << "requires a group named daemon";
  const gid_t member_of = users->gr_gid;
  const auto socket = listen(128, "daemon");
  ASSERT_TRUE(socket);
  const auto connect_as = [&](gid_t gid) {
    return in_child([&] {
      if (::setgroups(0, nullptr) != 0 || ::setgid(gid) != 0 || ::setuid(65534) != 0) return 99;
      return connect();
    });
  };
  EXPECT_EQ(0, connect_as(member_of));
  EXPECT_EQ(EACCES, connect_as(65534));
}

TEST_F(CaseS04, ATooLongPathIsAClearErrorNotACutName) {
  path_ = directory_ / std::string(120, 'x');
  const auto refused = listen();
  ASSERT_FALSE(refused);
  EXPECT_EQ(FailureKind::configuration, refused.error().kind);
  EXPECT_NE(std::string::npos, refused.error().message.find("107"));
  EXPECT_TRUE(fs::is_empty(directory_));
}

}  // namespace
}  // namespace penstock
