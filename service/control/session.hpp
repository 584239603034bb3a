// SPDX-License-Identifier: Apache-2.0
// One client: what it has opened, and the answers to its requests. Service thread only.
//
// Everything that a client holds hangs here, so that the end of the session, however it comes, gives it all back.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "service/control/service_state.hpp"
#include "service/ipc/control_channel.hpp"
#include "service/ipc/peer_identity.hpp"

namespace penstock {

// A time that a client gave, in ours.
Nanoseconds deadline_after(std::uint64_t timeout_ns);

class Session : public std::enable_shared_from_this<Session> {
 public:
  static constexpr std::size_t tables_max = 1024;  // Each costs the service two descriptors.
  static constexpr auto greeting_limit = std::chrono::seconds(5);

  Session(ServiceState& service, SessionId id, std::shared_ptr<ControlChannel> channel, PeerIdentity peer);

  void start();
  // Gives everything back and hangs up. Safe to call twice.
  void end(FailureKind reason, std::string_view text);
  // The service stops: tell the client; requests fail from now on.
  void announce_closing();
  void announce(const wire::ServiceMessage& event);
  // What is read into its buffers is given up, and not answered.
  void stop_reading() { buffer_reader_.reset(); }
  // Ends the client's process, by its pidfd. Without one: does nothing.
  void kill();

  SessionId id() const { return id_; }
  const PeerIdentity& peer() const { return peer_; }
  const std::string& name() const { return name_; }
  bool greeted() const { return greeted_; }
  bool is_admin() const;

  struct OpenTable {
    std::shared_ptr<SharedTable> table;
    std::shared_ptr<SharedTable> overlay;  // Null without private pages.
    std::shared_ptr<const PinWords> pins;
    std::uint64_t checkpoint = 0;  // Handle, of file tables.
  };
  const std::map<TableNumber, OpenTable>& tables() const { return tables_; }
  const std::map<std::uint64_t, std::shared_ptr<Checkpoint>>& checkpoints() const { return checkpoints_; }
  std::uint64_t pinned_bytes() const;     // By its pin words: a hint.
  std::uint64_t anonymous_bytes() const;  // Of that: of anonymous tables.
  std::uint64_t private_bytes() const;    // Anonymous and made private, resident.
  // What it said last of itself; null before it said anything.
  struct Reported {
    std::vector<wire::Holding> holdings;
    Nanoseconds at{};
  };
  const Reported* reported() const { return reported_ ? &*reported_ : nullptr; }
  // Null before files were read into its buffers.
  const BufferReader* buffer_reader() const { return buffer_reader_.get(); }
  bool stuck() const { return stuck_; }
  void set_stuck(bool stuck) { stuck_ = stuck; }

 private:
  void receive(std::uint64_t request, wire::ClientMessage&& message, UniqueFds&& descriptors);
  void watch_process();
  void await_greeting();

  void on(std::uint64_t request, wire::Hello&& hello, UniqueFds&& fds);
  void on(std::uint64_t request, wire::OpenCheckpoint&& open, UniqueFds&& fds);
  void on(std::uint64_t request, wire::CloseCheckpoint&& close, UniqueFds&& fds);
  void on(std::uint64_t request, wire::OpenTable&& open, UniqueFds&& fds);
  void on(std::uint64_t request, wire::CloseTable&& close, UniqueFds&& fds);
  void on(std::uint64_t request, wire::Admit&& admit, UniqueFds&& fds);
  void on(std::uint64_t request, wire::ReleaseGrant&& release, UniqueFds&& fds);
  void on(std::uint64_t request, wire::CreateBuffer&& create, UniqueFds&& fds);
  void on(std::uint64_t request, wire::TruncateBuffer&& truncate, UniqueFds&& fds);
  void on(std::uint64_t request, wire::FreeBuffer&& free, UniqueFds&& fds);
  void on(std::uint64_t request, wire::Free&& free, UniqueFds&& fds);
  void on(std::uint64_t request, wire::Query&& query, UniqueFds&& fds);
  void on(std::uint64_t request, wire::CancelRequest&& cancel, UniqueFds&& fds);
  void on(std::uint64_t request, wire::Report&& report, UniqueFds&& fds);
  void on(std::uint64_t request, wire::BookCopy&& book, UniqueFds&& fds);
  void on(std::uint64_t request, wire::AddFile&& add, UniqueFds&& fds);
  void on(std::uint64_t request, wire::DropFile&& drop, UniqueFds&& fds);
  void on(std::uint64_t request, wire::ReadFile&& read, UniqueFds&& fds);

  void checkpoint_opened(std::uint64_t request, Outcome<std::shared_ptr<Checkpoint>> opened);
  Outcome<std::shared_ptr<SharedTable>> make_table(const wire::OpenTable& open, DeviceLink& device,
                                                   UniqueFds& fds);
  Outcome<std::shared_ptr<SharedTable>> assemble(const wire::OpenTable& open, int manifest);
  Outcome<void> attach(std::uint64_t request, const wire::OpenTable& open,
                       std::shared_ptr<SharedTable> table);
  Outcome<void> connect_device(DeviceLink& device);
  void leave(OpenTable& open);
  void drop_files();

  void answer(std::uint64_t request, const wire::ServiceMessage& message,
              std::vector<UniqueFd> descriptors = {});
  void refuse(std::uint64_t request, const Failure& failure);
  void answer_json(std::uint64_t request, std::string json);
  Outcome<DeviceLink*> device_at(std::uint32_t index) const;
  bool alive() const { return !ended_; }

  friend class Queries;

  ServiceState& service_;
  const SessionId id_;
  std::shared_ptr<ControlChannel> channel_;
  PeerIdentity peer_;
  boost::asio::steady_timer greeting_timer_;
  boost::asio::posix::stream_descriptor process_;  // The pidfd: readable when the client has died.
  std::string name_;
  bool greeted_ = false, wants_events_ = false, ended_ = false, stuck_ = false;

  std::map<std::uint64_t, std::shared_ptr<Checkpoint>> checkpoints_;
  std::map<TableNumber, OpenTable> tables_;
  std::map<DeviceLink*, UniqueFd>
      connected_;  // The client's end of the socket, until the first table's reply takes it.
  std::optional<Reported> reported_;
  struct ReadableFile {
    std::string name;
    std::shared_ptr<CheckpointFile> file;  // Null while it is looked at.
  };
  std::map<std::uint64_t, ReadableFile> files_;
  std::unique_ptr<BufferReader> buffer_reader_;  // Null before its first read.
  std::set<std::uint64_t> unanswered_;
  std::uint64_t last_handle_ = 0;
  std::uint32_t last_table_ = 0;
};

}  // namespace penstock
