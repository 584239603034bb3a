// SPDX-License-Identifier: Apache-2.0
#include "service/control/admission_desk.hpp"

namespace penstock {
namespace {
template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;
}  // namespace

AdmissionDesk::AdmissionDesk(boost::asio::io_context& context, DeviceLink& device,
                             const LedgerOptions& options, Note note)
    : device_(device),
      frames_max_(options.frames_max),
      room_(options.room),
      ledger_(options),
      note_(std::move(note)),
      timer_(context) {
  commands_.reserve(8);
}

void AdmissionDesk::open(SessionId session, std::uint32_t user) {
  step(ledger::SessionOpened{.session = session, .user = user});
}

void AdmissionDesk::close(SessionId session) {
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second.session == session; });
  step(ledger::SessionClosed{.session = session});
}

void AdmissionDesk::ask(SessionId session, std::uint64_t request, const ledger::Ask& ask, Answer answer) {
  ledger::Ask numbered = ask;
  numbered.demand = DemandId{++last_demand_};
  numbered.session = session;
  waiting_.emplace(numbered.demand, Waiting{session, request, std::move(answer)});
  step(numbered);
}

void AdmissionDesk::cancel(SessionId session, std::uint64_t request) {
  for (const auto& [demand, waiting] : waiting_) {
    if (waiting.session != session || waiting.request != request) continue;
    const DemandId cancelled = demand;
    const Answer answer = take(cancelled);
    step(ledger::Cancel{.demand = cancelled});
    answer(fail(FailureKind::cancelled, "cancelled by the client"));
    return;
  }
}

Outcome<std::uint64_t> AdmissionDesk::release(SessionId session, std::uint64_t grant) {
  released_ = fail(FailureKind::internal, "no answer");
  step(ledger::Release{.session = session, .grant = GrantId{grant}});
  return released_;
}

bool AdmissionDesk::set_room(std::uint64_t total_bytes, std::optional<std::uint64_t> foreign_bytes,
                             std::uint64_t assumed_foreign_bytes) {
  ledger::RoomChanged room = room_;
  room.total_bytes = total_bytes;
  room.foreign_bytes = foreign_bytes;
  room.assumed_foreign_bytes = assumed_foreign_bytes;
  if (room == room_) return false;
  room_ = room;
  step(room);
  return true;
}

bool AdmissionDesk::set_allowed(std::uint64_t bytes) {
  if (room_.allowed_bytes == bytes) return false;
  room_.allowed_bytes = bytes;
  step(room_);
  return true;
}

// With what the device's account stood at: for those who ask why.
void AdmissionDesk::note(std::string_view kind, SessionId session, std::uint64_t bytes,
                         std::string_view reason,
                         std::vector<std::pair<std::string_view, std::uint64_t>> inputs) {
  const LedgerFigures figures = ledger_.figures();
  inputs.insert(inputs.end(), {{"capacity_bytes", figures.capacity_bytes},
                               {"headroom_bytes", figures.headroom_bytes},
                               {"foreign_bytes", figures.counted_foreign_bytes},
                               {"booked_bytes", figures.booked_bytes()}});
  note_(kind, session, bytes, reason, std::move(inputs));
}

AdmissionDesk::Answer AdmissionDesk::take(DemandId demand) {
  const auto found = waiting_.find(demand);
  if (found == waiting_.end()) return [](const Outcome<Granted>&) {};
  Answer answer = std::move(found->second.answer);
  waiting_.erase(found);
  return answer;
}

void AdmissionDesk::step(const ledger::Event& event) {
  // Answers may lead to further steps: those within another one have a list of their own.
  Ledger::Commands commands = std::exchange(commands_, {});
  ledger_.step(event, monotonic_now(), commands);
  for (const ledger::Command& command : commands) run(command);
  commands.clear();
  commands_ = std::move(commands);
  arm();
}

// From the answer itself: the published figures are of another moment.
void AdmissionDesk::budget_answered(BudgetOrder order, const RequestDone& done) {
  if (order != ordered_.order) return;
  step(ledger::BudgetAnswered{.order = order,
                              .used_bytes = ordered_.bytes + done.kept_pinned_bytes,
                              .pinned_bytes = done.kept_pinned_bytes,
                              .stuck_bytes = device_.stats().stuck_bytes.load()});
}

void AdmissionDesk::run(const ledger::Command& command) {
  std::visit(
      Overloaded{
          [&](const ledger::Admit& admit) {
            note("admit", admit.session, admit.weights_bytes + admit.work_bytes, "fits",
                 {{"weights_bytes", admit.weights_bytes},
                  {"work_bytes", admit.work_bytes},
                  {"free_bytes", ledger_.figures().free_bytes},
                  {"waited_ns", static_cast<std::uint64_t>(admit.waited.count())}});
            take(admit.demand)(Granted{raw(admit.grant), admit.work_bytes, admit.waited});
          },
          [&](const ledger::Refuse& refuse) {
            note("refuse", refuse.session, refuse.needed_bytes, failure_kind_name(refuse.failure.kind),
                 {{"needed_bytes", refuse.needed_bytes},
                  {"free_bytes", refuse.free_bytes},
                  {"waited_ns", static_cast<std::uint64_t>(refuse.waited.count())}});
            take(refuse.demand)(tl::unexpected<Failure>(refuse.failure));
          },
          [&](const ledger::Queued& queued) {
            note("queue", queued.session, queued.needed_bytes, "waits its turn",
                 {{"needed_bytes", queued.needed_bytes}, {"free_bytes", queued.free_bytes}});
          },
          [&](const ledger::Released& released) { released_ = released.bytes; },
          [&](const ledger::NotReleased& refused) { released_ = tl::unexpected<Failure>(refused.failure); },
          [&](const ledger::SetBudget& budget) {
            ordered_ = budget;
            // Small enough for std::function to keep it without an allocation.
            device_.ask(
                mail::ChangeBudget{.request = {}, .bytes = budget.bytes},
                [this, order = budget.order](const RequestDone& done) { budget_answered(order, done); });
          },
      },
      command);
}

void AdmissionDesk::arm() {
  const auto deadline = ledger_.next_deadline();
  if (!deadline) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(std::chrono::steady_clock::time_point(*deadline));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) step(ledger::Tick{});
  });
}

}  // namespace penstock
