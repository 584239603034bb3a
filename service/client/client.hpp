// SPDX-License-Identifier: Apache-2.0
// Client: one process's dealings with the service, over any number of connections. Any thread.
//
// Order of locks: opening_, copying_, booking_, Control's, state_, Paging's, the fork gate's, EventQueue's. None is held while a callback runs.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "service/client/agent.hpp"
#include "service/client/checkpoint.hpp"
#include "service/client/control.hpp"
#include "service/client/event_queue.hpp"
#include "service/client/paging.hpp"
#include "service/client/process_gpus.hpp"
#include "service/client/table_copy.hpp"

namespace penstock {

struct ClientOptions {
  std::string socket;
  std::string name;
  Nanoseconds connect_timeout{};
  Nanoseconds answer_timeout = never;  // What no call waits beyond, on top of a time of its own.
  bool reconnect = true;
  pst_event_callback callback = nullptr;
  void* callback_context = nullptr;
};

// "host", "cuda", "hip"
const char* kind_name(wire::DeviceKind kind);

// How a table is opened, and opened again on a new connection.
struct TableRecipe {
  std::string device;       // Id
  wire::OpenTable message;  // Its device and handles are filled in each time.
  std::vector<std::shared_ptr<Checkpoint>> checkpoints;
  std::vector<std::byte> manifest;
  bool copy_on_write = false;
  std::optional<PlainGpu> copied_to;  // Until the table is open: who copies it from there.
};

// An open table and those who opened it: one content is one table in a process.
struct OpenTable {
  TableRecipe recipe;
  std::unique_ptr<Table> table;
  std::vector<std::uint64_t> tensor_offsets;  // Scattered layouts: by tensor.
  std::uint32_t users = 1;
};

class Client final : private ControlListener {
 public:
  static Outcome<std::unique_ptr<Client>> connect(ClientOptions options);
  // REQUIRES: no other call is in progress, and this is not the process's child.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool forked() const { return birth_->load(std::memory_order_relaxed) == 0; }
  EventQueue& events() { return *events_; }
  std::uint32_t session();
  std::vector<wire::Device> devices();

  // How long a request may be unanswered for which that is usual.
  Nanoseconds patience(Nanoseconds usual) const { return std::min(usual, options_.answer_timeout); }
  // On top of a time that the service keeps itself.
  Nanoseconds patience_beyond(Nanoseconds time) const {
    return time == never ? never : time + patience(std::chrono::seconds(30));
  }

  // A request on the present connection, or on a new one when that was lost. `patience`: see Control::call.
  template <class Expected>
  Outcome<Reply> ask(const wire::ClientMessage& message, Nanoseconds patience, std::span<const int> fds = {});
  // The same, for things that live on one connection: disconnected when that is another one.
  template <class Expected>
  Outcome<Reply> ask_on(std::uint64_t epoch, const wire::ClientMessage& message, Nanoseconds patience,
                        std::span<const int> fds = {});
  void post_on(std::uint64_t epoch, const wire::ClientMessage& message) { control_.post(epoch, message); }
  // The connection's number, made if necessary.
  Outcome<std::uint64_t> connected(Nanoseconds deadline);

  Outcome<std::shared_ptr<Checkpoint>> open(CheckpointFile file);
  void close(std::shared_ptr<Checkpoint> checkpoint);
  // Its number for the present connection; nullopt while there is none.
  std::optional<std::uint64_t> handle_of(Checkpoint& checkpoint);

  // The table, which may be open here already, or closed and not unmapped yet.
  Outcome<OpenTable*> open(TableRecipe recipe);
  // Never waits for a GPU: pages that its work may still read are unmapped later, at the first of run_closing that finds the
  // work ended.
  void close(OpenTable& table);
  // Where a program of cooperative tables may give pages back.
  bool closing_waits() const { return closing_waits_.load(std::memory_order_relaxed); }
  void run_closing();

  // A GPU of this process whose memory can't be shared, by what the user calls it: "cuda", "hip" or an id.
  Outcome<PlainGpu> plain_gpu(const GpuName& name);
  // Its copy of a table in host memory; one for all who ask, while any of them has it.
  Outcome<std::shared_ptr<TableCopy>> copy(OpenTable& table, const PlainGpu& gpu);
  // Its user closes it. Its memory is given back at the first of run_closing that finds the work on it ended.
  void close(std::shared_ptr<TableCopy> copy);
  // The program has synchronised.
  void forget_copies_work();
  Outcome<void> fill(TableCopy& copy, OpenTable& table, PageSpan span, Nanoseconds deadline);

  // By its id, or the first of a kind. Null: the first one.
  struct Device {
    std::uint32_t index = 0;
    wire::Device facts;
    Paging* paging = nullptr;
  };
  Outcome<Device> device(const char* id);

  Outcome<void> fault(OpenTable& table, PageSpan span, Nanoseconds deadline);
  Outcome<void> prefetch(OpenTable& table, PageSpan span, bool wait, Nanoseconds deadline);
  Outcome<void> make_private(OpenTable& table, PageSpan span, Nanoseconds deadline);
  Outcome<std::uint64_t> free(const char* device, std::uint64_t bytes, Nanoseconds deadline);
  std::uint64_t free(OpenTable& table, std::uint64_t bytes, Nanoseconds deadline);
  std::vector<Paging*> pagings();

 private:
  explicit Client(ClientOptions options) : options_(std::move(options)), control_(*this) {}

  void on_closing() override;
  void on_pressure(const wire::Pressure& pressure) override;
  void on_table_gone(const wire::TableGone& gone) override;

  void serve(std::uint64_t key);
  Outcome<std::uint64_t> adopt(UniqueFd socket, wire::HelloReply reply);
  // Tells everybody about a connection that broke.
  void find_losses();
  void lose(std::uint64_t epoch, const Failure& failure);

  // All of these: under opening_.
  Outcome<void> give_handle(Checkpoint& checkpoint, std::uint64_t epoch, Nanoseconds deadline);
  Outcome<std::uint64_t> attach(OpenTable& table, Nanoseconds deadline);
  Outcome<Reply> request_table(TableRecipe& recipe, std::uint64_t epoch, Nanoseconds deadline);
  using OpenTables = std::vector<std::unique_ptr<OpenTable>>;
  // Open here, or closed and not unmapped yet: that has no users then. Null: neither.
  Outcome<OpenTable*> find(const TableRecipe& recipe);
  void end_closing();
  // False: device work may still read its pages.
  bool end(OpenTable& table);
  // Of the destructor: what may be in use after a while is left to the process.
  void leave_tables();
  Outcome<std::unique_ptr<PageMapper>> make_mapper(const wire::Device& device, const TableShape& shape);
  std::uint64_t key_of(const Paging& paging);  // In the agent's epoll set.
  // Holding no lock while memory is given back.
  void end_copies();
  void leave_copies();
  // Counts a copy before it is allocated: its number, 0 where the service counts none on that GPU.
  Outcome<std::uint64_t> book_copy(const std::string& gpu, std::uint64_t bytes);
  void unbook_copy(std::uint64_t number);
  void book_copies_again(std::uint64_t epoch);

  std::optional<std::uint64_t> present_connection();
  // Attached to the present connection.
  bool is_attached(const OpenTable& table);
  template <class Try>
  Outcome<void> on_attached(OpenTable& table, Nanoseconds deadline, Try attempt);

  const ClientOptions options_;
  const std::atomic<std::uint32_t>* birth_ = nullptr;
  std::unique_ptr<EventQueue> events_;
  Control control_;

  std::mutex opening_;  // Checkpoints and tables are opened, and opened again, one at a time.
  ProcessGpus gpus_;    // Outlives the tables that are mapped through them.
  OpenTables tables_;
  OpenTables closing_;  // Without users. They still answer revokes.
  std::atomic<bool> closing_waits_ = false;
  struct MadeCopy {
    const OpenTable* of = nullptr;  // Null: nobody uses it.
    std::shared_ptr<TableCopy> copy;
    std::uint32_t users = 1;
  };
  std::mutex copying_;  // After opening_. Never held while a copy is made or ends.
  std::vector<MadeCopy> copies_;
  std::atomic<bool> copies_wait_ = false;  // Some have no users.

  // What the service counts of the copies, or is asked to: by our number, until the memory is given back.
  std::mutex booking_;
  std::map<std::uint64_t, wire::BookCopy> booked_;
  std::uint64_t last_booked_ = 0;

  std::mutex state_;
  std::condition_variable state_changed_;
  std::uint64_t epoch_ = 0;
  bool connected_ = false;
  bool connecting_ = false;
  wire::HelloReply greeting_;
  std::vector<std::unique_ptr<Paging>> pagings_;  // Grows only.

  std::unique_ptr<Agent> agent_;  // The last member: it stops first.
};

template <class Expected>
Outcome<Reply> Client::ask(const wire::ClientMessage& message, Nanoseconds patience,
                           std::span<const int> fds) {
  const auto epoch = connected(deadline_in(patience));
  if (!epoch) return tl::unexpected(epoch.error());
  return ask_on<Expected>(*epoch, message, patience, fds);
}

template <class Expected>
Outcome<Reply> Client::ask_on(std::uint64_t epoch, const wire::ClientMessage& message, Nanoseconds patience,
                              std::span<const int> fds) {
  auto reply = control_.call<Expected>(epoch, message, patience, fds);
  if (!reply) find_losses();
  return reply;
}

}  // namespace penstock
