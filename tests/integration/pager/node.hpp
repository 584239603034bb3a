// SPDX-License-Identifier: Apache-2.0
// A node in small: a host device with its thread, and the test in the place of the service.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/device/host/host_device.hpp"
#include "dataplane/pager/dataplane_thread.hpp"
#include "tests/integration/pager/wire_client.hpp"
#include "tests/support/faulty_device.hpp"
#include "tests/support/fixed_headroom.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {

struct NodeOptions {
  std::uint32_t frames = 64;
  std::uint64_t frame_bytes = 256 * 1024;
  ReaderOptions::Io io = ReaderOptions::Io::automatic;
  Nanoseconds revoke_deadline = std::chrono::seconds(1);
  Nanoseconds stop_deadline = std::chrono::seconds(5);
  std::uint64_t bandwidth_bytes_per_second = 0;
  DataplaneThread::ReaderMaker make_reader{};
  bool addressable = true;  // False: everything goes through slots and copies, as on a GPU.
  // Another device than the host's own; then Node::device is empty.
  std::function<SharedDevice(const HostFrameOptions&, HeadroomSource&)> make_device{};
};

class Node {
 public:
  explicit Node(const NodeOptions& options = {});

  // A file of random bytes, on the folder of the tests.
  std::vector<std::byte> make_file(const std::string& name, std::uint64_t bytes);
  std::shared_ptr<CheckpointFile> open(const std::string& name);
  // Opens a shared table; returns its pages.
  std::uint32_t open_table(std::uint32_t table, TableSource source, TableKind kind = TableKind::file);
  std::uint32_t open_identity(std::uint32_t table, const std::string& name);
  void open_private(std::uint32_t table, TableKind kind, std::uint32_t pages, std::uint32_t owner,
                    std::uint32_t origin = 0);
  std::unique_ptr<WireClient> connect(std::uint32_t session, std::uint64_t private_bytes_max = 0);
  UniqueFd connect_socket(std::uint32_t session, std::uint64_t private_bytes_max = 0);
  void attach(std::uint32_t session, std::uint32_t table);

  void mail(PagerMail message);
  // Sends a request and waits for its answer, at most 20 s.
  template <class Request>
  RequestDone ask(Request request) {
    request.request = RequestId{++last_request_};
    mail(PagerMail(std::move(request)));
    return wait_for<RequestDone>();
  }
  // The next news of this type; other news is dropped. Aborts when none comes within 20 s.
  template <class News>
  News wait_for() {
    for (;;) {
      PagerNews news = next_news();
      if (auto* found = std::get_if<News>(&news)) return std::move(*found);
    }
  }
  // Stops the thread and waits until it has ended.
  void stop() { thread.reset(); }

  TemporaryFolder folder{"."};
  FixedHeadroom headroom;
  std::uint64_t frame_bytes;
  std::shared_ptr<HostDevice> device;    // Empty when another one was made.
  std::shared_ptr<FaultyDevice> faulty;  // Over `device`; what the pager sees then.
  std::map<std::uint32_t, std::shared_ptr<PageWords>> words;
  std::map<std::uint32_t, std::shared_ptr<PinWords>> pins;  // Of the newest attach of the table.
  std::unique_ptr<DataplaneThread> thread;

 private:
  SharedDevice host_device(const HostFrameOptions& frames, bool addressable);
  PagerNews next_news();

  std::uint64_t last_request_ = 0;
  std::vector<PagerNews> news_;
};

// Is page `page` of `bytes` what lies at `page`'s place of `expected`, zeros behind its end?
bool equals_page(std::span<const std::byte> bytes, std::span<const std::byte> expected, std::uint32_t page);

}  // namespace penstock::test
