// SPDX-License-Identifier: Apache-2.0
// Simulation: a device, a reader, the service and a few clients around one PagerCore, all driven by one seed.
// It obeys the core's commands in any order that the contract allows, and checks P1 to P8 after each step.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <variant>
#include <vector>

#include "dataplane/core/pager_core.hpp"
#include "tests/sim/simulated_device.hpp"
#include "tests/support/random.hpp"

namespace penstock::sim {

struct SimulationOptions {
  bool large = false;       // Tables of several grant batches, and more to say than the buffer holds.
  bool verify_core = true;  // Also the core's own invariants.
};

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed, SimulationOptions options = {});

  void run(int steps);
  // Everyone answers all that is open, in no time; then every ticket must be answered.
  void everyone_answers();
  // Nobody answers any more; time passes; every ticket must be answered.
  void fall_silent();
  // Everyone goes; nothing must be left.
  void wind_down();
  std::uint64_t completed() const { return completed_; }
  std::uint64_t steps() const { return fed_; }
  PagerCounts counts() const { return core_.counts(); }

 private:
  struct Batch {
    std::uint32_t number = 0;
    std::vector<Grant> grants;
  };
  struct Mapped {
    Generation generation{};
    FrameId frame{};
  };
  struct Client {
    std::map<TableId, RevokeMode> attached;
    std::map<PageKey, Mapped> mapped;
    std::map<PageKey, bool> pinned;                 // True: was answered busy, owes an idle.
    std::map<PageKey, int> ended;                   // When it last gave the page back.
    std::map<PageKey, Nanoseconds> asked;           // When a page that it has was last revoked.
    std::deque<std::variant<Batch, Revoke>> inbox;  // In the order of the socket.
    std::vector<Revoke> put_off;                    // Answered `later`.
    Batch incoming;
    std::uint32_t open_batch = 0;
    std::uint32_t owed = 0;  // The batch that its next message acknowledges.
    bool silent = false;
    bool stuck = false;  // By the core's word.
  };
  enum class RequestKind : std::uint8_t { grant, make_private, prefetch, evict, budget };
  struct Request {
    RequestKind kind = RequestKind::budget;
    SessionId session{};
    PageKey first{};
    std::uint32_t count = 0;  // Pages, or frames to evict.
    bool any_table = false;
    int step = 0;
  };

  // simulation.cpp: steps, and the ends of a run.
  void feed(const Event& event);
  void answer_device();
  void go_on();  // Until the core has said all.

  // simulated_commands.cpp: what the core says.
  void obey(const Command& command);
  void obey_destroy(const DestroyFrame& destroy);
  void take_revoke(const Revoke& revoke);
  void take_change(const PageChanged& change);
  void take_grant(const Grant& grant);
  void take_complete(const Complete& complete);

  // simulated_checks.cpp
  bool has(const Client& client, PageKey page) const;
  std::uint64_t expected_bytes(PageKey page) const;
  void check_step() const;
  void check_pins(const Client& client) const;
  void check_grant(const Grant& grant) const;
  void check_done(const Request& request, const Client& client) const;
  void check_eviction(PageKey page, std::optional<EvictReason> reason) const;
  bool may_outlive_table(FrameId id, PageKey page) const;
  bool is_slow(const Client& client, PageKey page) const;
  std::uint32_t leaving() const;
  bool is_demanded(std::uint32_t staying) const;
  std::uint32_t missing(const Request& request) const;

  // simulated_clients.cpp
  void client_acts(SessionId id, Client& client);
  void handle_next(SessionId id, Client& client);
  // What the client says, with the acknowledgement that it owes.
  void say(SessionId id, Client& client, const Event& message);
  void acknowledge(SessionId id, Client& client);
  void handle(SessionId id, Client& client, const Batch& batch);
  void handle(SessionId id, Client& client, const Revoke& revoke);
  void give_back(SessionId id, Client& client, PageKey page, bool release);
  void unpin_one(SessionId id, Client& client);
  void write_one(SessionId id, const Client& client);
  void say_nonsense(SessionId id, Client& client);

  // simulated_service.cpp
  void act();
  void request();
  void request_of_service();
  void set_budget(Ticket ticket, std::uint32_t frames);
  void request_evictions(Ticket ticket, std::uint32_t frames);
  void open_client();
  void close_client(SessionId id);
  void open_or_close();
  void open_table(SessionId id, Client& client);
  void detach(SessionId id, Client& client);
  void lose_writer();

  template <class Map>
  auto any_of(Map& map) {
    auto place = map.begin();
    std::advance(place, static_cast<std::ptrdiff_t>(random_.below(map.size())));
    return place;
  }

  Random random_;
  const SimulationOptions options_;
  const std::uint32_t scale_;
  std::uint32_t budget_;
  PagerCore core_;
  CommandBuffer buffer_;
  bool more_ = false;
  // Commands may still come that were decided before the last event; rules about that event then wait.
  bool lagging_ = false;
  std::uint32_t budget_ceiling_;  // The highest budget that such commands may have been decided by.
  Nanoseconds now_{1};
  int step_ = 0;
  SimulatedDevice device_;
  std::map<SessionId, Client> clients_;
  std::map<TableId, TableOpened> tables_;
  std::map<TableId, TableId> origins_;  // Of all overlays that there have been.
  std::map<Ticket, Request> requests_;
  std::uint64_t last_ticket_ = 0, completed_ = 0, fed_ = 0;
  std::uint32_t last_table_ = 100, last_session_ = 0;
  std::map<PageKey, Generation> generations_;
  std::map<PageKey, Residency> residency_;
  std::set<PageKey> evicting_;
  std::map<PageKey, std::uint64_t> written_;  // By the owners of private pages.
  std::uint32_t refused_at_ = ~0u;            // What was used when the device refused a frame.
  Nanoseconds refused_until_{};
};

}  // namespace penstock::sim
