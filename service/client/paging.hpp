// SPDX-License-Identifier: Apache-2.0
// Paging: this process's tables on one device, and the device socket. Any thread calls it. It outlives its connections:
// `epoch` says which one is meant.
//
//   P1. A message of the service is handled to its end (map, unmap, answer) before the next one, under one lock.
//   P2. Under that lock a page is marked wanted and `busy` sent, and later `idle`: in this order.
//   P3. Nothing waits under the lock: what the socket doesn't take at once waits in a bounded queue.
//   P4. A fault's pins are taken by whoever handles its completion, before the batch is acknowledged.
//   P5. A batch after which nothing is open is acknowledged by the next message, whatever that is: the service waits for
//       it only behind another request, and asks for a page by a revoke, whose answer is a message.
//   P6. Pages of a range that several batches bring are made accessible together (M1). Until then nobody sees them, and
//       before anything else happens here, whoever does it, they are.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "service/client/event_queue.hpp"
#include "service/client/shared_socket.hpp"
#include "service/client/table.hpp"
#include "service/protocol/device_codec.hpp"
#include "service/protocol/unique_fds.hpp"

namespace penstock {

class Paging {
 public:
  Paging(std::string device, EventQueue& events) : device_(std::move(device)), events_(events) {}
  Paging(const Paging&) = delete;
  Paging& operator=(const Paging&) = delete;

  const std::string& device() const { return device_; }

  // ---- connections ----
  void open(std::uint64_t epoch, std::shared_ptr<const ForkAwareFd> socket, SocketWatch watch);
  // Fails what waits; what is mapped stays. Does nothing when another connection has taken over.
  void lose(std::uint64_t epoch, const Failure& failure);
  // Why the connection broke, when it did.
  std::optional<Failure> broken(std::uint64_t epoch);
  void serve();

  // ---- tables ----
  // REQUIRES: the attachment's connection is open here.
  void attach(Table& table, TableAttachment attachment);
  // Unmaps everything. Its number and epoch, to be told to the service; nullopt when that connection is lost.
  std::optional<std::uint32_t> detach(Table& table);
  // The same for a table that nobody uses any more, unless device work may still read its pages.
  struct Detached {
    Ending ending = Ending::now;  // Anything else: nothing has changed.
    std::optional<std::uint32_t> number;
  };
  Detached try_detach(Table& table);
  // For a closed table that is opened again: without pins, and as the service makes it.
  void begin_anew(Table& table);
  void set_gone(std::uint32_t number, FailureKind reason);
  bool attached(const Table& table, std::uint64_t epoch);
  template <class Look>
  auto look(Look look) {
    const Hold lock(*this);
    return look();
  }

  // ---- requests ----
  struct Answer {
    Outcome<void> outcome;
    bool sent = true;  // False: the connection was lost before, and another attempt may be made on a new one.
  };
  // Brings in and pins the pages, all or none. REQUIRES: count > 0.
  Answer fault(Table& table, PageSpan span, Nanoseconds deadline);
  Answer prefetch(Table& table, PageSpan span, bool wait, Nanoseconds deadline);
  Answer make_private(Table& table, PageSpan span, Nanoseconds deadline);
  void prioritize(Table& table);
  void set_cutoff(Table& table, std::uint32_t pages);
  // Gives back unpinned pages of this process, private ones first. Bytes that the service says are free by that.
  // `only`: of that table alone, from its end.
  std::uint64_t give_back(std::uint64_t bytes, Nanoseconds deadline, const Table* only = nullptr);

  // ---- pins and revokes ----
  // The pages may be mapped all the same: their words were being moved to the region of a new connection.
  PinOutcome pin_settled(Table& table, PageSpan span);
  // False: a page had no pin to give up.
  bool unpin(Table& table, PageSpan span);
  // A fault, an unpin, pst_run_revokes: revokes that were answered `later` are carried out.
  void run_revokes();
  void set_idle(bool idle);
  bool idle() const { return idle_.load(std::memory_order_relaxed); }
  bool revokes_wait() const { return listed_count_.load(std::memory_order_relaxed) != 0; }
  void last_unpin(Table& table, std::uint32_t page);
  void settle() { const Hold lock(*this); }

 private:
  static constexpr std::size_t outbox_max =
      65536;  // Messages; a service that leaves more unread is taken for dead.

  // Requests of one thread, and how they ended.
  struct Request : Waiter {
    Table* table = nullptr;
    PageSpan span;
    bool pins = false;                         // A fault: pinned on completion.
    bool replaces = false;                     // Private pages, that take the place of pinned ones.
    std::uint32_t open = 0;                    // Not completed yet.
    TicketResult result = TicketResult::done;  // Of the last that was not done.
    FailureKind reason = FailureKind::internal;
    std::uint64_t released_bytes = 0;
    std::optional<Failure> failure;  // Of this process: the connection, a mapping.
    bool pinned = false;
  };
  struct Listed {
    Table* table = nullptr;
    PageName page;
    bool inherited = false;   // Nobody waits for it, its service is gone.
    bool unfinished = false;  // Of our own will: the service hears of a release.
  };
  struct Idle {
    Table* table = nullptr;
    std::uint32_t page = 0;
    std::uint64_t touches = 0;
  };

  // The lock, with nothing half done (P6).
  struct Hold {
    explicit Hold(Paging& paging) : held(paging.mutex_) { paging.finish_placed(); }
    std::unique_lock<std::mutex> held;
  };

  // All below: under mutex_.
  std::optional<std::uint32_t> detach_locked(Table& table);
  // Handles what is there, up to the completion of `awaited`.
  void receive(const Request* awaited = nullptr);
  void handle(std::span<const std::byte> datagram);
  // `lost`: the descriptors didn't arrive.
  void take(const wire::GrantBatch& batch, const std::optional<Failure>& lost);
  void place(const wire::GrantBatch& batch);
  // Its first page goes on where the last one placed ends.
  bool continues_run(const wire::GrantBatch& batch) const;
  // Maps one page of the batch; its descriptor is kept where the driver needs it.
  Result<> place(const wire::GrantEntry& entry, std::size_t at);
  // The next batch may bring more descriptors than this process can take beside those that are kept.
  bool short_of_descriptors() const;
  // Makes what is placed accessible, a call for each run, and known.
  void finish_placed();
  void finish_run(std::span<const wire::GrantEntry> run);
  void complete(const PeerCompletion& completion);
  void revoke(const wire::RevokePage& revoke);
  void answer_revoke(Table& table, const PageName& page);
  // Revokes that are still open. `cooperative`: at a cooperative point; else only those that need none.
  void run_listed(bool cooperative);
  void list(Listed one);
  void drop_listed(const Table& table);
  void last_unpin_locked(Table& table, std::uint32_t page);
  PinOutcome pin_locked(Table& table, PageSpan span);
  void unpin_locked(Table& table, PageSpan span);

  Table* table_of(std::uint32_t number) const;
  void could_not_map(const wire::GrantEntry& entry, const Failure& failure);
  // A frame may take the place of another one, which needs two steps: somebody waits for that, and nothing uses the page.
  bool may_replace(Table& table, std::uint32_t page) const;
  // Whoever waits for the page is told so.
  void fail_waiters(const wire::GrantEntry& entry, const Failure& failure);
  void release(const PageName& page, bool drop_if_last = false) {
    send(PeerRelease{0, page.table, page.page, page.generation, drop_if_last});
  }
  std::vector<Idle> idle_pages(const Table* only);  // Mapped and without a pin, the least valuable first.
  std::uint64_t enlist(Request& request);
  // False: the deadline passed. Its requests are then cancelled. REQUIRES: the request waits for something.
  bool wait(std::unique_lock<std::mutex>& lock, Request& request, Nanoseconds deadline, bool cooperative);
  std::optional<Answer> refuse(const Table& table) const;
  bool send_faults(Table& table, Request& request);  // False: the connection is lost.
  Outcome<void> end_of(const Request& request) const;
  // False: the connection is lost; whoever reads finds out.
  bool send(const PeerMessage& message);
  // Sends what waits in the outbox, as far as the socket takes it.
  void flush();
  void break_off(Failure failure);
  void fail_all(const Failure& failure);
  void descriptors_lost(std::span<const std::byte> datagram);

  const std::string device_;
  EventQueue& events_;
  std::mutex mutex_;
  std::uint64_t epoch_ = 0;
  SharedSocket socket_;
  std::optional<Failure> broken_;
  bool closing_ = false;
  std::deque<pstw_device_message> outbox_;
  std::uint32_t last_batch_ = 0;
  std::uint32_t owed_ = 0;  // The batch that the next message acknowledges; 0: none.
  std::uint64_t last_request_ = 0;
  std::unordered_map<std::uint64_t, Request*> requests_;
  std::unordered_map<std::uint32_t, Table*> tables_;  // By both numbers of a table.
  std::vector<Listed> listed_;
  std::atomic<std::uint32_t> listed_count_ = 0;  // Follows listed_, for those who look without the lock.
  std::atomic<bool> idle_ = false;

  wire::DeviceBuffer buffer_;
  UniqueFds fds_;
  std::array<GrantFate, PSTW_GRANTS_MAX> fates_;
  std::vector<wire::GrantEntry> placed_;  // Mapped, not accessible yet and in no record.
  std::vector<UniqueFd> placed_fds_;      // Theirs, where the driver uses them until then.
};

}  // namespace penstock
