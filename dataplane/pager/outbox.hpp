// SPDX-License-Identifier: Apache-2.0
// Outbox: what goes to one client, in order. Sends at once when the socket takes it; otherwise queues, with a bound.
//
// Invariants:
//  O1 Messages leave in the order of the calls; a revoke never passes the batch that granted its page.
//  O2 At most one batch is being collected, waiting or unacknowledged (the core's rule; checked here).
//  O3 At most `queue_max` messages wait; one more ends the session (state() == overflow).
// Descriptors exist only during the call that sends them, so a client that doesn't read holds none of ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <variant>
#include <vector>

#include "dataplane/base/ids.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/core/pager_events.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/pager/peer_port.hpp"

namespace penstock {

// A completion, with the time at which the fault that it ends came in.
struct OutgoingCompletion {
  PeerCompletion wire;
  std::optional<Nanoseconds> fault_received;
};

// A page that was granted but could not be handed over: no descriptor was left.
struct UnsharedPage {
  PageKey page{};
  Generation generation{};
};

class Outbox {
 public:
  enum class State : std::uint8_t {
    open,      // Nothing waits.
    writable,  // Waits for the socket to become writable.
    later,     // Waits for a while: flush() when the owner's timer says so.
    overflow,  // The client doesn't read. Nothing is sent any more.
    gone,      // Hang-up.
  };

  Outbox(PeerPort& port, FrameOwner& frames);

  // Adds a page to the batch that is being collected.
  void add(const Grant& grant, TableNumber table);
  bool has_collected() const { return collected_; }
  // Sends the collected batch. `completes`: the request that ends with it.
  void send_batch(const std::optional<OutgoingCompletion>& completes);
  void send(const Revoke& revoke, TableNumber table);
  void send(const OutgoingCompletion& completion);
  void send_closing();
  // The client has closed the table: what still waits of it is not handed over any more.
  void forget(TableNumber table);
  // Goes on with what waits.
  void flush();

  State state() const { return state_; }
  // The client says that it has mapped `batch`. False: no such batch is open.
  bool acknowledge(std::uint32_t batch);

  // The page is in a batch that has not left: the client can't have it, and its frame must stay until then.
  bool holds(PageKey page, Generation generation) const;

  // For the owner to take and clear: receipt times of faults whose completion has left; pages that could not be handed
  // over; the batch that never left because none of its pages could be.
  std::vector<Nanoseconds>& completed_faults() { return completed_faults_; }
  std::vector<UnsharedPage>& unshared() { return unshared_; }
  std::optional<std::uint32_t> take_void_batch();

  void set_queue_max(std::size_t messages) { queue_max_ = messages; }
  std::size_t queued() const { return queue_.size(); }

 private:
  struct BatchMark {
    std::optional<OutgoingCompletion> completes;
  };
  struct ClosingMark {};
  struct OutgoingGrant {
    Grant grant;
    TableNumber table{};
  };
  struct OutgoingRevoke {
    Revoke revoke;
    TableNumber table{};
  };
  using Message = std::variant<BatchMark, OutgoingRevoke, OutgoingCompletion, ClosingMark>;

  void send_or_queue(const Message& message);
  bool try_send(const Message& message);
  Result<> transmit(const BatchMark& mark);
  Result<> transmit(const OutgoingRevoke& revoke);
  Result<> transmit(const OutgoingCompletion& completion);
  Result<> transmit(const ClosingMark& mark);
  Result<> transmit_completion(const std::optional<OutgoingCompletion>& completion);
  void has_left(const std::optional<OutgoingCompletion>& completion);

  PeerPort& port_;
  FrameOwner& frames_;
  State state_ = State::open;
  std::deque<Message> queue_;
  std::size_t queue_max_ = 1024;
  std::vector<OutgoingGrant> batch_;        // Collected, or waiting in the queue.
  std::vector<ExportedFrame> descriptors_;  // Of one transmit; kept for its memory.
  bool collected_ = false;
  bool spoiled_ = false;  // A page of this batch could not be handed over.
  std::optional<std::uint32_t> unacknowledged_;
  std::optional<std::uint32_t> void_batch_;
  std::vector<Nanoseconds> completed_faults_;
  std::vector<UnsharedPage> unshared_;
};

}  // namespace penstock
