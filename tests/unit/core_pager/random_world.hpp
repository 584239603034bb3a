// SPDX-License-Identifier: Apache-2.0
// RandomWorld: a device, a writer and a few clients around one PagerCore, all driven by one seed. It obeys
// the core's commands in any order that the contract allows, checks what each must not do, and verifies the
// invariants each step.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <variant>
#include <vector>

#include "dataplane/core/pager_core.hpp"
#include "tests/support/random.hpp"

namespace penstock::test {

class RandomWorld {
 public:
  // Large: tables of several grant batches, and more to say than the buffer holds.
  explicit RandomWorld(std::uint64_t seed, bool large = false);

  void run(int steps);
  // Everyone answers all that is open, in no time; then every ticket must be answered.
  void everyone_answers();
  // Nobody answers any more; time passes; every ticket must be answered.
  void fall_silent();
  // Everyone goes; nothing must be left.
  void wind_down();
  std::uint64_t completed() const { return completed_; }
  PagerCounts counts() const { return core_.counts(); }

 private:
  struct Batch {
    std::uint32_t number = 0;
    std::vector<Grant> grants;
  };
  struct Client {
    std::map<TableId, RevokeMode> attached;
    std::map<PageKey, Generation> mapped;
    std::map<PageKey, bool> pinned;                 // True: was answered busy, owes an idle.
    std::map<PageKey, int> ended;                   // When it last gave the page back.
    std::deque<std::variant<Batch, Revoke>> inbox;  // In the order of the socket.
    std::vector<Revoke> put_off;                    // Answered `later`.
    Batch incoming;
    std::uint32_t open_batch = 0;
    bool silent = false;
  };
  struct Request {
    SessionId session{};
    PageKey first{};
    std::uint32_t count = 0;
    int step = 0;
    bool grants = false;
  };

  void feed(const Event& event);
  void obey(const Command& command);
  void obey_frame(const Command& command);
  void take_grant(const Grant& grant);
  void take_complete(const Complete& complete);
  bool has(const Client& client, PageKey page) const;

  void act();
  void answer_device();
  void client_acts(SessionId id, Client& client);
  void handle_next(SessionId id, Client& client);
  void handle(SessionId id, Client& client, const Batch& batch);
  void handle(SessionId id, Client& client, const Revoke& revoke);
  void give_back(SessionId id, Client& client, PageKey page, bool release);
  void unpin_one(SessionId id, Client& client);
  void say_nonsense(SessionId id, Client& client);
  void request();
  void request_of_service();
  void open_client();
  void close_client(SessionId id);
  void open_or_close();
  void lose_writer();
  template <class Map>
  auto any_of(Map& map) {
    auto place = map.begin();
    std::advance(place, static_cast<std::ptrdiff_t>(random_.below(map.size())));
    return place;
  }

  Random random_;
  const std::uint32_t scale_;
  std::uint32_t budget_;
  PagerCore core_;
  CommandBuffer buffer_;
  bool more_ = false;
  Nanoseconds now_{1};
  int step_ = 0;
  std::map<SessionId, Client> clients_;
  std::map<TableId, TableOpened> tables_;
  std::map<Ticket, Request> requests_;
  std::uint64_t last_ticket_ = 0, completed_ = 0;
  std::uint32_t last_table_ = 100, last_frame_ = 0, last_session_ = 0;
  std::vector<CreateFrame> creations_;
  std::vector<Load> loads_;
  std::vector<CopyFrame> fills_;
  std::map<FrameId, PageKey> frames_;
  std::set<FrameId> filled_;
  std::map<PageKey, Generation> generations_;
};

}  // namespace penstock::test
