// SPDX-License-Identifier: Apache-2.0
// The pager's side of one client's ordered device socket, as typed values. Implemented by service/protocol's codec over
// SEQPACKET; a script in tests. Owned and used by the device's dataplane thread alone.
//
// One socket carries both directions, so a revoke can't overtake the grant that it revokes (D5).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/ids.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

// ---- from the client. `request` is the client's own number, returned in the answer; all is input, not trusted. ----
struct PeerFault {
  std::uint64_t request;
  std::uint32_t table, first, count;
};
struct PeerPrefetch {
  std::uint64_t request;
  std::uint32_t table, first, count;
};
struct PeerMakePrivate {
  std::uint64_t request;
  std::uint32_t table, first, count;
};  // table: the shared one
struct PeerGranted {
  std::uint32_t batch;
};
struct PeerAcked {
  std::uint32_t table, page;
  std::uint64_t generation;
};
struct PeerBusy {
  std::uint32_t table, page;
  std::uint64_t generation;
  bool later;
};
struct PeerIdle {
  std::uint32_t table, page;
};
struct PeerRelease {
  std::uint64_t request;
  std::uint32_t table, page;
  std::uint64_t generation;
  bool drop_if_last;
};
struct PeerPrioritize {
  std::uint32_t table;
};
struct PeerCutoff {
  std::uint32_t table, pages;
};
struct PeerCancel {
  std::uint64_t request;
};
using PeerMessage = std::variant<PeerFault, PeerPrefetch, PeerMakePrivate, PeerGranted, PeerAcked, PeerBusy,
                                 PeerIdle, PeerRelease, PeerPrioritize, PeerCutoff, PeerCancel>;
// What a client sends at once.
struct PeerDatagram {
  PeerMessage message;
  std::uint32_t acknowledges = 0;  // A batch, as PeerGranted said before the message would; 0: none.
};

// ---- to the client ----
struct GrantedPage {
  std::uint32_t table, page;
  std::uint64_t generation;
  bool writable;
  int fd;  // Borrowed for the call; the caller closes it.
};
struct PeerCompletion {
  std::uint64_t request = 0;
  std::uint8_t result = 0;  // TicketResult
  FailureKind reason = FailureKind::internal;
  std::uint32_t frames = 0;
  std::uint64_t released_bytes = 0;  // Release: bytes really given back.
};

class PeerPort {
 public:
  virtual ~PeerPort() = default;
  PeerPort(const PeerPort&) = delete;
  PeerPort& operator=(const PeerPort&) = delete;

  virtual int fd() const = 0;  // For epoll.
  // nullopt: nothing there now. Errc::closed: hang-up. Errc::protocol: garbage; the session is to be closed.
  virtual Result<std::optional<PeerDatagram>> receive() = 0;
  // One message with up to grant_batch_pages descriptors. `completes`: the request that this batch completes, if any.
  // Errc::busy: the socket is full; try again when fd() is writable. Errc::exhausted: the user has too many descriptors
  // in flight (ETOOMANYREFS); try again after a while. Errc::closed: peer gone. The same for the other sends.
  virtual Result<> send_grants(std::uint32_t batch, std::span<const GrantedPage> pages,
                               std::optional<PeerCompletion> completes) = 0;
  virtual Result<> send_revoke(std::uint32_t table, std::uint32_t page, std::uint64_t generation) = 0;
  virtual Result<> send_completion(const PeerCompletion& completion) = 0;
  virtual Result<> send_closing() = 0;  // The service stops; a hang-up follows.

 protected:
  PeerPort() = default;
};

}  // namespace penstock
