// SPDX-License-Identifier: Apache-2.0
// A child made by fork has no tensors, and is told so.
#include "tests/unit/client/scripted_client.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

namespace penstock::test {
namespace {

class Fork : public ScriptedClient {
 protected:
  // What `look` answers in a child; `raw`: one that no handler of fork has prepared.
  template <class Look>
  static int in_child(Look look, bool raw = false) {
    const pid_t child =
        raw ? static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr))
            : ::fork();
    if (child == 0) ::_exit(look());
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Sockets that this process has open.
  static int open_sockets() {
    int count = 0;
    for (int fd = 0; fd < 256; ++fd) {
      int type = 0;
      socklen_t length = sizeof type;
      if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET) ++count;
    }
    return count;
  }
};

TEST_F(Fork, EveryHandleAnswersForkedInTheChild) {
  open();
  bring_in(0);
  for (const bool raw : {false, true}) {
    const auto look = [&] {
      if (pin(0, 1, 0) != PST_FORKED) return 1;
      if (unpin(0) != PST_FORKED) return 2;
      if (pst_run_revokes(client) != PST_FORKED) return 3;
      char* answer = nullptr;
      if (pst_query(client, "status", "{}", &answer) != PST_FORKED) return 4;
      pst_checkpoint* other = nullptr;
      if (pst_open(client, "x", &other) != PST_FORKED) return 5;
      if (std::string(pst_last_error(client)).find("fork") == std::string::npos) return 6;
      pst_table_close(table);
      pst_close(checkpoint);
      pst_disconnect(client);
      return 0;
    };
    EXPECT_EQ(in_child(look, raw), 0);
  }
  EXPECT_EQ(pin(0, 1, 0), PST_DONE);
  EXPECT_EQ(service.table().pin_count(0), 2u);
}

TEST_F(Fork, NothingIsMappedInTheChild) {
  open();
  bring_in(0, 2);
  const auto mapped_pages = [&] {
    int pipe[2];
    if (::pipe(pipe) != 0) return -1;
    int count = 0;
    for (std::uint32_t page = 0; page < 3; ++page) {
      if (::write(pipe[1], const_cast<const std::uint8_t*>(bytes) + page * page_bytes, 1) == 1) ++count;
    }
    return count;
  };
  EXPECT_EQ(mapped_pages(), 2);
  EXPECT_EQ(in_child(mapped_pages), 0);
  // What comes after a fork is hidden at the next.
  bring_in(2, 1, 2);
  EXPECT_EQ(mapped_pages(), 3);
  EXPECT_EQ(in_child(mapped_pages), 0);
}

TEST_F(Fork, TheChildHoldsNoSocketOfTheClient) {
  open();
  bring_in(0);
  const int all = open_sockets();
  // The control and the device socket; the scripted service's own ends stay, as it knows nothing of forks.
  EXPECT_EQ(in_child([&] { return all - open_sockets(); }), 2);
  EXPECT_EQ(pin(0, 1, 0), PST_DONE);
}

TEST_F(Fork, AChildMayConnectForItself) {
  open();
  const auto look = [&] {
    pst_connect_options options{};
    options.size = sizeof options;
    options.socket = service.path().c_str();
    pst_client* own = nullptr;
    if (pst_connect(&options, &own) != PST_DONE) return 1;
    char* answer = nullptr;
    if (pst_query(own, "status", "{}", &answer) != PST_DONE) return 2;
    if (pst_query(client, "status", "{}", &answer) != PST_FORKED) return 3;
    pst_disconnect(own);
    return 0;
  };
  EXPECT_EQ(in_child(look), 0);
}

TEST_F(Fork, AForkDuringFaultsLeavesNoPageInTheChild) {
  service.pages = 64;
  open();
  std::atomic<bool> stop = false;
  std::thread pager([&] {
    while (!stop) {
      const auto message = service.device().next_within(std::chrono::milliseconds(20));
      if (!message) continue;
      if (const auto* fault = std::get_if<PeerFault>(&*message))
        service.device().grant(fault->table, fault->first, fault->count, 1, fault->request);
    }
  });
  std::thread faults([&] {
    for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(pin(page), PST_DONE);
  });
  int seen = 0;
  for (int i = 0; i < 20; ++i) {
    seen += in_child([&] {
      int pipe[2];
      if (::pipe(pipe) != 0) return 1;
      for (std::uint32_t page = 0; page < 64; ++page) {
        if (::write(pipe[1], const_cast<const std::uint8_t*>(bytes) + page * page_bytes, 1) == 1) return 1;
      }
      return 0;
    });
  }
  EXPECT_EQ(seen, 0);
  faults.join();
  stop = true;
  pager.join();
}

}  // namespace
}  // namespace penstock::test
