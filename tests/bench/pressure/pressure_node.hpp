// SPDX-License-Identifier: Apache-2.0
// A service in this process with a host device and a governor, and a client of it that maps all pages without a pin, so
// that each eviction asks the client.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/event_fd.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/device/host/host_device.hpp"
#include "dataplane/pager/dataplane_thread.hpp"
#include "service/client/include/penstock.h"
#include "service/control/governor.hpp"
#include "service/control/service.hpp"

namespace penstock::bench {

inline constexpr std::uint64_t frame_bytes = 2 * mib, frames = 64, file_bytes = 48 * frame_bytes;

// The usual policy for this device; only its recovery is cut short, so that many triggers take a minute.
PressureOptions short_recovery();

class Node {
 public:
  // `room`, `alarm` and `watch`, which may be null, outlive it.
  Node(const std::string& socket, HeadroomSource& room, const EventFd& alarm, KernelWatch* watch,
       const PressureOptions& policy);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  bool is_whole() const { return thread_->stats().budget_bytes.load() == frames * frame_bytes; }

 private:
  boost::asio::io_context context_{1};
  Config config_;
  Service service_{context_, config_};
  std::shared_ptr<HostDevice> device_;
  std::unique_ptr<DataplaneThread> thread_;
  std::optional<Governor> governor_;
  std::optional<ServiceSocket> socket_;
  std::thread loop_;  // The service thread.
};

// Ends the program when something is not done.
void check(pst_status status);

class MappingClient {
 public:
  // `file` has `file_bytes`.
  MappingClient(const std::string& socket, const std::string& file);
  ~MappingClient();
  MappingClient(const MappingClient&) = delete;
  MappingClient& operator=(const MappingClient&) = delete;

  void open_too(const std::string& file);  // Opened, and followed by the probes; nothing of it is mapped.
  void map_all();

 private:
  pst_client* client_ = nullptr;
  pst_table* table_ = nullptr;
};

// The least value that `part` of `sorted` does not exceed. REQUIRES: not empty.
double quantile(const std::vector<double>& sorted, double part);

}  // namespace penstock::bench
