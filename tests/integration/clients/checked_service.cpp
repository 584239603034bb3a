// SPDX-License-Identifier: Apache-2.0
// The service over a device that aborts when a rule of the device seam is broken (FaultyDevice): host memory that, like a
// GPU's, nobody but the writer reaches, and whose copies end late.
//   checked_service --config FILE
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "bpf/cgroup_headroom.hpp"
#include "dataplane/base/check.hpp"
#include "dataplane/core/simple_eviction.hpp"
#include "dataplane/device/host/host_device.hpp"
#include "dataplane/pager/dataplane_thread.hpp"
#include "service/config/load.hpp"
#include "service/control/service.hpp"
#include "service/ipc/service_socket.hpp"
#include "tests/support/faulty_device.hpp"

namespace penstock::test {
namespace {

struct CheckedDevice {
  HostDevice host;
  FaultyDevice faulty;
  explicit CheckedDevice(HostDevice opened)
      : host(std::move(opened)), faulty(host.owner(), host.writer(), {.addressable = false}) {}
};

std::shared_ptr<CheckedDevice> open_device(const Config& config, HeadroomSource& headroom) {
  HostFrameOptions frames;
  frames.capacity_bytes = config.host.capacity_bytes.value();
  auto opened = HostDevice::open(frames, headroom);
  CHECK(opened);
  return std::make_shared<CheckedDevice>(std::move(*opened));
}

// Fences are held for 3 ms, then told for 3 ms, for as long as the service runs.
class SlowFences {
 public:
  SlowFences(boost::asio::io_context& context, FaultyDevice& device) : timer_(context), device_(device) {
    next();
  }

 private:
  void next() {
    held_ = !held_;
    if (held_) {
      device_.hold_fences();
    } else {
      device_.release_fences();
    }
    timer_.expires_after(std::chrono::milliseconds(3));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) next();
    });
  }

  boost::asio::steady_timer timer_;
  FaultyDevice& device_;
  bool held_ = false;
};

int serve(const Config& config) {
  std::signal(SIGPIPE, SIG_IGN);
  boost::asio::io_context context(1);
  auto headroom = CgroupHeadroom::open();
  CHECK(headroom);
  Service service(context, config);
  const std::shared_ptr<CheckedDevice> device = open_device(config, **headroom);
  DataplaneThreadOptions options;
  options.pager.revoke_deadline = config.service.revoke_deadline;
  auto thread =
      DataplaneThread::start({.owner = std::shared_ptr<FrameOwner>(device, &device->faulty.owner()),
                              .writer = std::shared_ptr<FrameWriter>(device, &device->faulty.writer())},
                             std::make_unique<SimpleEviction>(), options);
  CHECK(thread);
  service.add_device(
      {.description = {.id = "host", .kind = "host", .limits = device->faulty.owner().limits()},
       .mail = &(*thread)->mail(),
       .news = &(*thread)->news(),
       .stats = &(*thread)->stats()});
  service.set_host_memory(**headroom, 64u << 20);
  const auto socket =
      ServiceSocket::listen({.path = config.service.socket, .group = config.service.socket_group});
  CHECK(socket);
  service.serve(*socket);
  SlowFences fences(context, device->faulty);
  std::fprintf(stderr, "ready: penstockd over a checked device\n");
  context.run();  // Until it is killed.
  return 1;
}

}  // namespace
}  // namespace penstock::test

int main(int count, char** words) {
  using namespace penstock;
  if (count != 3 || std::string_view(words[1]) != "--config") {
    std::fprintf(stderr, "usage: checked_service --config FILE\n");
    return 2;
  }
  const auto loaded = load_config({.file = words[2]});
  CHECK(loaded);
  return test::serve(loaded->config);
}
