// SPDX-License-Identifier: Apache-2.0
// Control: the control socket of one client. Requests of several threads, matched with their answers; events go to the
// listener. It outlives its connections: `epoch` says which one is meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "service/client/shared_socket.hpp"
#include "service/protocol/control_codec.hpp"
#include "service/protocol/unique_fds.hpp"

namespace penstock {

struct Reply {
  wire::ServiceMessage message;
  UniqueFds fds;
};

// Called on whichever thread reads, under the control socket's lock: must not call it back.
class ControlListener {
 public:
  virtual void on_closing() = 0;
  virtual void on_pressure(const wire::Pressure& pressure) = 0;
  virtual void on_table_gone(const wire::TableGone& gone) = 0;

 protected:
  ~ControlListener() = default;
};

class Control {
 public:
  explicit Control(ControlListener& listener) : listener_(listener), buffer_(PSTW_MESSAGE_BYTES_MAX) {}
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  void open(std::uint64_t epoch, std::shared_ptr<const ForkAwareFd> socket, SocketWatch watch);
  // Fails all that waits. Does nothing when another connection has taken over.
  void lose(std::uint64_t epoch, const Failure& failure);
  // The connection that broke and was not yet told to lose(), if any.
  std::optional<Failure> broken(std::uint64_t epoch);
  void serve();

  // A reply of the type asked for, or the failure that the service told. `patience` counts from the last progress; what an
  // answer brings that comes later is given back.
  template <class Expected>
  Outcome<Reply> call(std::uint64_t epoch, const wire::ClientMessage& message, Nanoseconds patience,
                      std::span<const int> fds = {});
  // For what nobody waits for: closing things.
  void post(std::uint64_t epoch, const wire::ClientMessage& message);

 private:
  struct Call : Waiter {
    std::optional<Outcome<Reply>> answer;
    bool progressed = false;
  };

  struct Started {
    std::uint64_t request;
    std::shared_ptr<const ForkAwareFd> socket;
  };

  Outcome<Reply> ask(std::uint64_t epoch, const wire::ClientMessage& message, Nanoseconds patience,
                     std::span<const int> fds);
  // Numbers a request once fewer than the allowed number are unanswered. `call` null: nobody waits for the answer.
  Outcome<Started> start(std::unique_lock<std::mutex>& lock, std::uint64_t epoch, Call* call,
                         Nanoseconds deadline);
  // May wait until the deadline. REQUIRES: mutex_ is not held then.
  Outcome<void> send(const Started& to, const wire::ClientMessage& message, std::span<const int> fds,
                     Nanoseconds deadline);
  void receive();
  void handle(std::span<const std::byte> datagram);
  void answer(std::uint64_t request, Outcome<Reply> reply);
  void give_back(const Outcome<Reply>& late);
  // The answer came, but this process could not take its descriptors.
  void descriptors_lost(std::span<const std::byte> datagram);
  void break_off(Failure failure);
  void fail_all(const Failure& failure);

  ControlListener& listener_;
  std::mutex mutex_;
  std::uint64_t epoch_ = 0;
  SharedSocket socket_;
  std::optional<Failure> broken_;
  std::uint64_t last_request_ = 0;
  std::unordered_map<std::uint64_t, Call*>
      calls_;                      // Null: nobody waits (any more), the answer is still to come.
  std::vector<Waiter*> for_room_;  // Threads that wait for fewer unanswered requests.
  std::vector<std::byte> buffer_;
  UniqueFds fds_;
};

template <class Expected>
Outcome<Reply> Control::call(std::uint64_t epoch, const wire::ClientMessage& message, Nanoseconds patience,
                             std::span<const int> fds) {
  auto reply = ask(epoch, message, patience, fds);
  if (!reply || std::holds_alternative<Expected>(reply->message)) return reply;
  if (auto* failure = std::get_if<Failure>(&reply->message)) return tl::unexpected(std::move(*failure));
  const Failure wrong{FailureKind::protocol_violation, "the service answered with a message of another type",
                      ""};
  const std::lock_guard lock(mutex_);
  if (epoch == epoch_) break_off(wrong);
  return tl::unexpected(wrong);
}

}  // namespace penstock
