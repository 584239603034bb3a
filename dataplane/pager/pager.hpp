// SPDX-License-Identifier: Apache-2.0
// Pager: runs the core of one device. A turn takes what has happened (mail, device, reads, clients), feeds it to the
// core as events, and carries out the core's commands.
//
//  S1 Events that arise while commands are carried out wait in events_ until those are done: the core is never entered
//     twice.
//  S2 Each request of a client or of the service is answered exactly once, unless its session ends first.
//  S3 A message that breaks the protocol ends its session and nothing else.
//  S4 A turn is bounded: messages per client, rounds of follow-up; wants_turn() says that there is more to do.
//  S5 After Stop no load starts; stopped() when nothing is in flight any more, or at the deadline.
//
// Dataplane thread only. No clock: `now` is passed in. No waiting.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/mailbox.hpp"
#include "dataplane/core/eviction_policy.hpp"
#include "dataplane/core/pager_core.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/pager/load_pipeline.hpp"
#include "dataplane/pager/mail.hpp"
#include "dataplane/pager/news_queue.hpp"
#include "dataplane/pager/page_scrubber.hpp"
#include "dataplane/pager/peer_session.hpp"
#include "dataplane/pager/peer_watch.hpp"
#include "dataplane/pager/pinned_figure.hpp"
#include "dataplane/pager/request_book.hpp"
#include "dataplane/pager/stats.hpp"

namespace penstock {

struct PagerOptions {
  std::uint64_t budget_bytes = ~0ull;  // At most the device's capacity.
  Nanoseconds revoke_deadline = std::chrono::seconds(1);
  Nanoseconds cooperative_deadline = std::chrono::seconds(30);
  Nanoseconds stop_deadline = std::chrono::seconds(5);          // For reads in flight, after Stop.
  std::uint32_t messages_per_turn = 32;                         // Of one client.
  std::uint32_t requests_per_session = 256;                     // Not completed; one more is answered `busy`.
  Nanoseconds figures_period = std::chrono::milliseconds(100);  // Of figures that cost something.
  Nanoseconds figures_lag_max =
      std::chrono::milliseconds(1);   // Of all others, while faults follow one another.
  std::uint32_t pinned_pages = 8192;  // Looked at each period.
  Nanoseconds retry_period = std::chrono::milliseconds(5);
  ScrubRates scrub{.soon = 1ull << 30, .rolling = 64ull << 20};
  std::function<void(const SumsOff&)> on_sums_off{};  // For the log. Dataplane thread.
};

class Pager {
 public:
  struct Parts {
    FrameOwner& owner;
    FrameWriter& writer;
    std::unique_ptr<LoadPipeline> loads;
    std::unique_ptr<EvictionPolicy> policy;
    Mailbox<PagerMail>& mail;
    Mailbox<PagerNews>& news;
    PeerWatch& watch;
    PagerStats& stats;
    std::unique_ptr<FrameSummer> summer = nullptr;  // Without one, pages are not scrubbed.
  };
  // What the poll loop found ready. The defaults look everywhere.
  struct Ready {
    bool mail = true;
    bool device = true;
    bool reads = true;
    std::span<const SessionId> readable{};
    std::span<const SessionId> writable{};
  };

  Pager(Parts parts, const PagerOptions& options);
  ~Pager();
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

  void turn(Nanoseconds now, const Ready& ready);
  // There is work that waits for nothing: the next turn should follow at once.
  bool wants_turn() const;
  std::optional<Nanoseconds> next_deadline() const;
  // Faults were completed since the last settle(): their latency is known once the caller has read the clock.
  bool has_unsettled() const { return !unsettled_.empty(); }
  void settle(Nanoseconds now);
  // The figures of stats.hpp, as they are now. turn() does it by itself unless it leaves faults to settle: then they are
  // due by the next deadline, and from one that lingers when they are too old.
  void publish();
  bool figures_are_old(Nanoseconds now) const { return now - published_at_ >= options_.figures_lag_max; }

  bool stopping() const { return stop_by_.has_value(); }
  // Nothing is in flight any more, or the deadline has passed; and the service has been told, if it listens.
  bool stopped() const;
  // After stopped(): something did not end in time, and may still write to the ring and to frames.
  bool loads_left() const { return loads_left_; }

  // Valid while the pager lives, for the poll loop.
  int reads_fd() const { return loads_->event_fd(); }
  const LoadPipeline& loads() const { return *loads_; }
  const PagerCore& core() const { return core_; }
  // For a caller that must leave behind what a stuck read may still write to.
  std::unique_ptr<LoadPipeline> abandon_loads() { return std::move(loads_); }

 private:
  struct OpenedTable {
    TableKind kind = TableKind::file;
    TableId origin{};
    std::uint32_t pages = 0;
    std::uint64_t bytes = 0;
    std::shared_ptr<PageWords> words;
    bool has_source = false;
    bool orphaned = false;  // Its owner had ended: the core has never heard of it.
    bool closing = false;
    RequestId close_request{};
  };
  struct OpenScrub {
    RequestId request{};
    std::uint64_t pages = 0;                              // Asked for.
    std::uint64_t summed_before = 0, corrupt_before = 0;  // Totals.
  };
  struct CopyFence {
    FenceId fence{};
    PageKey page{};
    Generation generation{};
  };

  // pager.cpp: the turn.
  void feed(const Event& event);
  void later(const Event& event) { events_.push_back(event); }
  void pump();
  void poll_device();
  void poll_loads();
  void start_copies();
  void lose_writer();
  void change_condition(DeviceCondition condition);
  void hear_of_losses();
  void run_timers();
  // pager_scrub.cpp
  void scrub();
  void answer_scrubs();
  void take_filled();
  void release_filled(std::optional<PageKey> page);
  void reload(PageKey page);
  void finish_closed_tables();

  // pager_mail.cpp: what the service says.
  void take_mail();
  void take(mail::OpenSession& message);
  void take(const mail::CloseSession& message);
  void take(mail::OpenTable& message);
  void take(mail::AttachTable& message);
  void take(const mail::DetachTable& message);
  void take(const mail::CloseTable& message);
  void take(const mail::LoadTable& message);
  void take(const mail::EvictTable& message);
  void take(const mail::ScrubTable& message);
  void take(const mail::MoveSource& message);
  void take(const mail::ChangeBudget& message);
  void take(const mail::Stop& message);
  void refuse(RequestId request, FailureKind reason);
  void try_stop();

  // pager_peers.cpp: what clients say.
  void serve(SessionId id);
  void take(PeerSession& session, const PeerFault& message);
  void take(PeerSession& session, const PeerPrefetch& message);
  void take(PeerSession& session, const PeerMakePrivate& message);
  void take(PeerSession& session, const PeerGranted& message);
  void take(PeerSession& session, const PeerAcked& message);
  void take(PeerSession& session, const PeerBusy& message);
  void take(PeerSession& session, const PeerIdle& message);
  void take(PeerSession& session, const PeerRelease& message);
  void take(PeerSession& session, const PeerPrioritize& message);
  void take(PeerSession& session, const PeerCutoff& message);
  void take(PeerSession& session, const PeerCancel& message);
  Attachment* named(PeerSession& session, std::uint32_t table, std::uint32_t first = 0,
                    std::uint32_t count = 0);
  Attachment* requested(PeerSession& session, std::uint64_t request, std::uint32_t table, std::uint32_t first,
                        std::uint32_t count);
  void refuse(PeerSession& session, std::uint64_t request, FailureKind reason);
  void violate(PeerSession& session) { lose(session, FailureKind::protocol_violation); }
  void lose(PeerSession& session, FailureKind reason);
  void after_sending(PeerSession& session);
  PeerSession* find_session(SessionId id);

  // pager_commands.cpp: what the core wants.
  void run_commands();
  void run(const CreateFrame& command);
  void run(const DestroyFrame& command);
  void run(const Load& command);
  void run(const CancelLoad& command);
  void run(const CopyFrame& command);
  void run(const Grant& command);
  void run(const Revoke& command);
  void run(const Complete& command);
  void run(const PageChanged& command);
  void run(const SharingChanged& command);
  void run(const Evicted& command);
  void run(const SessionStuck& command);
  void send_collected(const std::optional<OutgoingCompletion>& completes);
  void complete_for_peer(const OpenRequest& request, const Complete& command);
  void complete_for_service(const OpenRequest& request, const Complete& command);
  void log_outcome(const OpenRequest& request, const Complete& command);
  PagerDecision decision(PagerDecision::Kind kind, PageKey page) const;

  FrameOwner& owner_;
  FrameWriter& writer_;
  const DeviceLimits device_;
  const PagerOptions options_;
  std::unique_ptr<LoadPipeline> loads_;
  Mailbox<PagerMail>& mail_;
  NewsQueue news_;
  PeerWatch& watch_;
  PagerStats& stats_;
  PagerCore core_;
  CommandBuffer commands_;
  RequestBook requests_;
  std::unordered_map<SessionId, std::unique_ptr<PeerSession>> sessions_;
  std::vector<std::unique_ptr<PeerSession>> buried_;  // Closed in this turn: may still be on the stack.
  std::unordered_map<TableId, OpenedTable> tables_;
  PinnedFigure pinned_;
  PageScrubber scrubber_;
  std::vector<OpenScrub> scrubs_;
  std::set<PageKey> to_reload_;  // Corrupt: once evicted they are read again.

  Nanoseconds now_{};
  std::vector<Event> events_, feeding_;
  std::vector<PagerMail> mail_batch_;
  std::vector<Loaded> loaded_, filled_;
  std::vector<Nanoseconds> unsettled_;
  PeerSession* collecting_ = nullptr;  // Whose batch is collected and not sent.
  std::deque<CopyFence> copy_fences_;
  std::deque<CopyFrame> waiting_copies_;  // The writer's queue was full.
  FenceId reached_{};
  std::optional<PageKey> released_page_;  // During a Release: was it destroyed?
  bool released_destroyed_ = false;
  bool device_touched_ = false, loads_touched_ = false, tables_closing_ = false;
  bool writer_lost_ = false;
  std::uint64_t contents_losses_ = 0;  // That were told.
  Nanoseconds next_figures_{}, published_at_{};
  std::uint64_t turns_ = 0, published_ = 0;
  std::optional<Nanoseconds> retry_at_;
  std::optional<Nanoseconds> stop_by_;
  bool stopped_ = false;
  bool loads_left_ = false;
  std::uint64_t pages_opened_ = 0;  // Of all tables that are open.
};

}  // namespace penstock
