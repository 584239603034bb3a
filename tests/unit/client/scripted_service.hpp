// SPDX-License-Identifier: Apache-2.0
// A small service for tests of the client: a real socket and the real codec, and nothing behind them. A thread answers
// the control socket with what is set here; the device socket is the test's to read and write.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/base/mapping.hpp"
#include "service/protocol/control_codec.hpp"
#include "service/protocol/device_port.hpp"
#include "service/protocol/session_region.h"
#include "service/protocol/unique_fds.hpp"

namespace penstock::test {

inline constexpr std::uint64_t page_bytes = 64 * 1024;

// Memory behind one page, filled with `fill`. Sealed as the service seals it.
UniqueFd make_frame(std::uint8_t fill, bool writable = false);

// Words that the test may look at and change, and a descriptor of them.
struct SharedWords {
  explicit SharedWords(std::uint32_t count);
  std::uint64_t load(std::uint32_t at) const;
  void store(std::uint32_t at, std::uint64_t word);
  UniqueFd fd;
  Mapping mapping;
};

// One opened table, as the service sees it.
struct ScriptedTable {
  std::uint32_t number = 0;
  std::uint32_t overlay = 0;
  std::uint32_t pages = 0;
  wire::OpenTable asked;
  std::shared_ptr<SharedWords> words, overlay_words, pins;
  void show(std::uint32_t page, pstw_residency residency, std::uint64_t generation) {
    words->store(page, static_cast<std::uint64_t>(residency) << PSTW_RESIDENCY_SHIFT | generation);
  }
  std::uint32_t pin_count(std::uint32_t page) const { return pstw_pin_count(pins->load(page)); }
  std::uint32_t pin_state(std::uint32_t page) const { return pstw_pin_state(pins->load(page)); }
};

// The service's end of one client's device socket.
class ScriptedDevice {
 public:
  explicit ScriptedDevice(UniqueFd socket) : port_(std::move(socket)) {}

  // The next message; fails the test and returns a release of nothing when none comes, or another type does.
  template <class Message>
  Message next();
  std::optional<PeerMessage> next_within(std::chrono::milliseconds bound);
  bool hung_up();

  // One frame a page, filled with its page number + 1, all of one generation.
  void grant(std::uint32_t table, std::uint32_t first, std::uint32_t count, std::uint64_t generation,
             std::optional<std::uint64_t> completes = std::nullopt, bool writable = false);
  void grant(std::span<const GrantedPage> pages, std::optional<std::uint64_t> completes);
  void grant_filled(std::uint32_t table, std::uint32_t page, std::uint64_t generation, std::uint8_t fill,
                    std::optional<std::uint64_t> completes = std::nullopt, bool writable = false);
  void revoke(std::uint32_t table, std::uint32_t page, std::uint64_t generation);
  void complete(std::uint64_t request, TicketResult result, FailureKind reason = FailureKind::internal,
                std::uint64_t released_bytes = 0);
  void closing() { (void)port_.send_closing(); }
  std::uint32_t last_batch() const { return batch_; }
  // The last batch that was acknowledged, by a message of its own or with another, in what was read so far.
  std::uint32_t acknowledged() const { return acknowledged_; }
  DevicePort& port() { return port_; }

 private:
  DevicePort port_;
  std::uint32_t batch_ = 0;
  std::uint32_t acknowledged_ = 0;
};

class ScriptedService {
 public:
  explicit ScriptedService(std::string path);
  ~ScriptedService();

  const std::string& path() const { return path_; }
  // Hangs up, as a killed service does, and goes on listening for nobody.
  void die();
  // A new life on the same path.
  void come_back();

  // The device socket that the latest connection got, once it has one.
  ScriptedDevice& device();
  // The table that was opened as the n-th of this life, from 0.
  ScriptedTable& table(std::size_t n = 0);
  // Waits for a request of that type, also one that has been answered already; each is given once.
  template <class Message>
  std::optional<Message> asked();

  // Sends an event, or an answer that was held back.
  void send(std::uint64_t request, const wire::ServiceMessage& message);
  void send_raw(std::span<const std::byte> bytes);

  // Called on the service's thread; an empty answer holds it back. Set before the client connects.
  std::function<std::optional<wire::ServiceMessage>(std::uint64_t request, const wire::ClientMessage&)>
      on_request;
  std::uint32_t pages = 8;
  std::string checkpoint_id = "0123456789ab";
  std::uint32_t protocol = PSTW_PROTOCOL;

 private:
  void listen();
  void serve();
  bool serve_one();
  void answer(std::uint64_t request, const wire::ClientMessage& message);
  void answer_checkpoint(std::uint64_t request);
  void answer_table(std::uint64_t request, const wire::OpenTable& open);
  void answer_buffer(std::uint64_t request, const wire::CreateBuffer& create);
  void reply(std::uint64_t request, const wire::ServiceMessage& message, std::span<const int> fds = {});
  std::optional<std::pair<std::uint64_t, wire::ClientMessage>> take(std::size_t type);

  std::string path_;
  EventFd stop_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  UniqueFd listener_;
  UniqueFd control_;
  UniqueFds fds_;
  std::vector<std::byte> buffer_;
  std::deque<std::pair<std::uint64_t, wire::ClientMessage>> requests_;
  std::unique_ptr<ScriptedDevice> device_;
  std::deque<std::unique_ptr<ScriptedTable>> tables_;
  std::vector<std::unique_ptr<ScriptedDevice>> old_devices_;
  std::uint32_t last_table_ = 0;
  std::uint64_t last_handle_ = 0;
};

template <class Message>
Message ScriptedDevice::next() {
  const auto message = next_within(std::chrono::seconds(20));
  if (message) {
    if (const auto* wanted = std::get_if<Message>(&*message)) return *wanted;
    ADD_FAILURE() << "the client sent message " << message->index();
  } else {
    ADD_FAILURE() << "the client sent nothing";
  }
  return {};
}

template <class Message>
std::optional<Message> ScriptedService::asked() {
  const auto found = take(wire::ClientMessage(Message{}).index());
  if (!found) return std::nullopt;
  return std::get<Message>(found->second);
}

}  // namespace penstock::test
