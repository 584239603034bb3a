// SPDX-License-Identifier: Apache-2.0
// A client of the device socket, as plain as it can be: one thread, which reads, maps, acknowledges and unmaps.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "service/protocol/device_codec.hpp"
#include "service/protocol/unique_fds.hpp"

namespace penstock::test {

class WireClient {
 public:
  using Page = std::pair<std::uint32_t, std::uint32_t>;  // Table, index.
  struct Mapped {
    Mapping memory;
    std::uint64_t generation = 0;
    bool writable = false;
    bool pinned = false;
    bool wanted = false;  // Answered busy.
  };

  WireClient(UniqueFd socket, std::uint64_t page_bytes)
      : socket_(std::move(socket)), page_bytes_(page_bytes) {}

  // Sends the request and serves the socket until it is completed. Aborts when nothing comes for 20 s.
  PeerCompletion fault(std::uint32_t table, std::uint32_t first, std::uint32_t count = 1);
  std::uint64_t start_make_private(std::uint32_t table, std::uint32_t first, std::uint32_t count = 1);
  PeerCompletion make_private(std::uint32_t table, std::uint32_t first, std::uint32_t count = 1);
  std::uint64_t start_fault(std::uint32_t table, std::uint32_t first, std::uint32_t count = 1);
  PeerCompletion wait_for(std::uint64_t request);
  void cancel(std::uint64_t request) { send(PeerCancel{request}); }
  // The socket's messages, until there is none for `milliseconds`; false after a hang-up.
  bool serve(int milliseconds);

  bool has(std::uint32_t table, std::uint32_t page) const { return pages_.contains({table, page}); }
  std::span<std::byte> bytes(std::uint32_t table, std::uint32_t page) {
    return at(table, page).memory.bytes();
  }
  std::uint64_t generation(std::uint32_t table, std::uint32_t page) { return at(table, page).generation; }
  void pin(std::uint32_t table, std::uint32_t page) { at(table, page).pinned = true; }
  void unpin(std::uint32_t table, std::uint32_t page);
  void release(std::uint32_t table, std::uint32_t page, bool drop_if_last);
  std::size_t mapped() const { return pages_.size(); }

  void send(const PeerMessage& message);
  UniqueFd& socket() { return socket_; }

  std::uint32_t revokes = 0, busy = 0;
  bool closing = false;                      // The service said so.
  std::optional<int> last_descriptor_seals;  // Of the newest page, before its descriptor was closed.

 private:
  Mapped& at(std::uint32_t table, std::uint32_t page) { return pages_.at({table, page}); }
  bool receive(int milliseconds);
  void take(const wire::GrantBatch& batch);
  void take(const wire::RevokePage& page);

  UniqueFd socket_;
  std::uint64_t page_bytes_;
  std::map<Page, Mapped> pages_;
  std::map<std::uint64_t, PeerCompletion> completions_;
  std::uint64_t last_request_ = 0;
  wire::DeviceBuffer buffer_;
  UniqueFds fds_;
};

}  // namespace penstock::test
