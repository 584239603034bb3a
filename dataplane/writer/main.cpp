// SPDX-License-Identifier: Apache-2.0
// penstock-writer [--self-test] KIND [DEVICE]: fills the frames of one device for penstockd, which starts it and talks to it through
// descriptor 3. Nobody else runs it. Ends with the service. With --self-test it only tests the device, and answers there.
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/base/resource_limits.hpp"
#include "dataplane/device/gpu/gpu_identity.hpp"
#include "dataplane/writer/gpu_filler.hpp"
#include "dataplane/writer/host_filler.hpp"
#include "dataplane/writer/sharing_test.hpp"
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
  // A service that died before all that sends no signal any more.
  pollfd service{.fd = writer_socket_number, .events = 0, .revents = 0};
  if (::poll(&service, 1, 0) == 1 && (service.revents & POLLHUP) != 0) ::_exit(exit_done);
}

bool is_our_socket() {
  int type = 0;
  socklen_t length = sizeof type;
  return ::getsockopt(writer_socket_number, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
         type == SOCK_SEQPACKET;
}

Outcome<std::unique_ptr<HostedFiller>> make_filler(const std::string& kind, const std::string& id) {
  if (kind == "host") return std::make_unique<HostFiller>();
  for (const GpuVendor vendor : {GpuVendor::cuda, GpuVendor::hip}) {
    if (kind != gpu_vendor_name(vendor)) continue;
    auto filler = GpuFiller::open(vendor, id);
    if (!filler) return tl::unexpected(std::move(filler.error()));
    return *std::move(filler);
  }
  return fail(FailureKind::invalid_argument, "no device of kind " + kind);
}

int serve(const std::string& kind, const std::string& id) {
  follow_the_service();
  (void)raise_open_files_limit();
  WriterChannel channel{UniqueFd(writer_socket_number)};
  auto filler = make_filler(kind, id);
  if (!filler) {
    std::fprintf(stderr, "%s\n", filler.error().message.c_str());
    return filler.error().kind == FailureKind::invalid_argument ? exit_usage : exit_failed;
  }
  WriterLoop loop(std::move(channel), *std::move(filler));
  const Result<> ended = loop.run();
  if (ended) return exit_done;
  std::fprintf(stderr, "%s failed with %d\n", ended.error().operation, ended.error().native);
  // Not through the filler's destructor, which waits for a device that no longer answers.
  ::_exit(exit_failed);
}

// Ends without giving back what a driver that answered oddly may hang on.
[[noreturn]] void test(const std::string& kind, const std::string& id) {
  follow_the_service();
  for (const GpuVendor vendor : {GpuVendor::cuda, GpuVendor::hip}) {
    if (kind != gpu_vendor_name(vendor)) continue;
    ::_exit(answer_sharing_test(vendor, id, writer_socket_number) ? exit_done : exit_failed);
  }
  ::_exit(exit_usage);
}

}  // namespace
}  // namespace penstock

int main(int count, char** words) {
  if (count < 2 || !penstock::is_our_socket()) {
    std::fprintf(stderr, "penstock-writer is started by penstockd, not by hand\n");
    return penstock::exit_usage;
  }
  if (words[1] == penstock::self_test_option) {
    if (count != 4) return penstock::exit_usage;
    penstock::test(words[2], words[3]);
  }
  return penstock::serve(words[1], count > 2 ? words[2] : "");
}
