// SPDX-License-Identifier: Apache-2.0
// One device's admission: runs the pure Ledger with timers, the pager and the waiting clients. Service thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "dataplane/base/failure.hpp"
#include "service/control/device_link.hpp"
#include "service/policy/ledger.hpp"

namespace penstock {

class AdmissionDesk {
 public:
  struct Granted {
    std::uint64_t grant = 0;
    std::uint64_t work_bytes = 0;
    Nanoseconds waited{};
  };
  using Answer = std::function<void(Outcome<Granted>)>;
  using Note =
      std::function<void(std::string_view kind, SessionId, std::uint64_t bytes, std::string_view reason,
                         std::vector<std::pair<std::string_view, std::uint64_t>> inputs)>;

  AdmissionDesk(boost::asio::io_context& context, DeviceLink& device, const LedgerOptions& options,
                Note note);

  void open(SessionId session, std::uint32_t user);
  // Its demands are dropped without an answer, its grants given back.
  void close(SessionId session);
  // Answers once, unless the session closes first. `request` is the client's number, for cancel.
  void ask(SessionId session, std::uint64_t request, const ledger::Ask& ask, Answer answer);
  void cancel(SessionId session, std::uint64_t request);
  Outcome<std::uint64_t> release(SessionId session, std::uint64_t grant);

  // An unhealthy device refuses all demands, those that wait too.
  void set_healthy(bool healthy) { step(ledger::HealthChanged{.healthy = healthy}); }

  // What others leave of the device, as it is known now: only a change is a step. Returns whether it was one.
  bool set_room(std::uint64_t total_bytes, std::optional<std::uint64_t> foreign_bytes,
                std::uint64_t assumed_foreign_bytes);

  // What pressure leaves of the memory behind the device: only a change is a step, which allocates nothing unless a
  // demand is answered or queued. Returns whether it was one.
  bool set_allowed(std::uint64_t bytes);

  std::uint64_t work_bytes(SessionId session) const { return ledger_.work_bytes(session); }
  std::uint64_t booked_bytes() const { return ledger_.figures().booked_bytes(); }
  LedgerFigures figures() const { return ledger_.figures(); }
  // Pages that the service's descriptors allow.
  std::uint64_t frames_max() const { return frames_max_; }

 private:
  struct Waiting {
    SessionId session{};
    std::uint64_t request = 0;
    Answer answer;
  };

  void step(const ledger::Event& event);
  void budget_answered(BudgetOrder order, const RequestDone& done);
  void note(std::string_view kind, SessionId session, std::uint64_t bytes, std::string_view reason,
            std::vector<std::pair<std::string_view, std::uint64_t>> inputs);
  void run(const ledger::Command& command);
  void arm();
  Answer take(DemandId demand);

  DeviceLink& device_;
  const std::uint64_t frames_max_;
  ledger::RoomChanged room_;  // As the ledger knows it.
  Ledger ledger_;
  Ledger::Commands commands_;  // Its memory is used again; empty while a step is under way.
  ledger::SetBudget ordered_;  // The last one.
  Note note_;
  boost::asio::steady_timer timer_;
  std::map<DemandId, Waiting> waiting_;
  std::uint64_t last_demand_ = 0;
  // What the Release that is being stepped was answered.
  Outcome<std::uint64_t> released_ = fail(FailureKind::internal, "no answer");
};

}  // namespace penstock
