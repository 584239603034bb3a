// SPDX-License-Identifier: Apache-2.0
// penstock-writer KIND [DEVICE]: fills the frames of one device for penstockd, which starts it and talks to it through
// descriptor 3. Nobody else runs it. Ends with the service.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/base/resource_limits.hpp"
#include "dataplane/writer/host_filler.hpp"
#include "dataplane/writer/writer_loop.hpp"

namespace penstock {
namespace {

enum ExitCode { exit_done = 0, exit_failed = 1, exit_usage = 2 };

// The service manager and a terminal signal whole groups; the writer goes when the service hangs up, not before.
void follow_the_service() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "penstock-writer");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
  ::syscall(SYS_close_range, writer_socket_number + 1, ~0u, 0);
}

bool is_our_socket() {
  int type = 0;
  socklen_t length = sizeof type;
  return ::getsockopt(writer_socket_number, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
         type == SOCK_SEQPACKET;
}

std::unique_ptr<HostedFiller> make_filler(std::string_view kind) {
  if (kind == "host") return std::make_unique<HostFiller>();
  return nullptr;
}

int serve(std::string_view kind) {
  follow_the_service();
  (void)raise_open_files_limit();
  const std::unique_ptr<HostedFiller> filler = make_filler(kind);
  if (!filler) {
    std::fprintf(stderr, "penstock-writer: no device of kind %.*s\n", static_cast<int>(kind.size()),
                 kind.data());
    return exit_usage;
  }
  WriterLoop loop(WriterChannel(UniqueFd(writer_socket_number)), *filler);
  const Result<> ended = loop.run();
  if (ended) return exit_done;
  std::fprintf(stderr, "penstock-writer: %s failed with %d\n", ended.error().operation, ended.error().native);
  return exit_failed;
}

}  // namespace
}  // namespace penstock

int main(int count, char** words) {
  if (count < 2 || !penstock::is_our_socket()) {
    std::fprintf(stderr, "penstock-writer is started by penstockd, not by hand\n");
    return penstock::exit_usage;
  }
  return penstock::serve(words[1]);
}
