// SPDX-License-Identifier: Apache-2.0
#include "service/client/control.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "service/client/status.hpp"
#include "service/protocol/socket_io.hpp"

namespace penstock {
namespace {

constexpr Nanoseconds post_patience = std::chrono::seconds(5);

Failure no_connection() { return {FailureKind::disconnected, "the connection to the service is lost", ""}; }

Failure too_late(Nanoseconds patience) {
  return {FailureKind::deadline,
          fmt::format("the service did not answer within {:.1f} s",
                      std::chrono::duration<double>(patience).count()),
          "is it stopped, or does it wait for a file system that hangs?"};
}

// Gives back what an answer brought that nobody waits for any more. Nothing: it brought nothing.
std::optional<wire::ClientMessage> undo_of(const wire::ServiceMessage& late) {
  if (const auto* opened = std::get_if<wire::CheckpointReply>(&late))
    return wire::CloseCheckpoint{opened->checkpoint};
  if (const auto* opened = std::get_if<wire::TableReply>(&late)) return wire::CloseTable{opened->table};
  if (const auto* admitted = std::get_if<wire::AdmitReply>(&late)) return wire::ReleaseGrant{admitted->grant};
  if (const auto* made = std::get_if<wire::BufferReply>(&late)) return wire::FreeBuffer{made->buffer};
  if (const auto* added = std::get_if<wire::FileReply>(&late)) return wire::DropFile{added->file};
  return std::nullopt;
}

}  // namespace

void Control::open(std::uint64_t epoch, std::shared_ptr<const ForkAwareFd> socket, SocketWatch watch) {
  const std::lock_guard lock(mutex_);
  fail_all(no_connection());  // Of the connection before, which another thread may be about to lose.
  epoch_ = epoch;
  last_request_ = 1;  // hello was the first.
  broken_.reset();
  socket_.open(std::move(socket), watch);
}

void Control::lose(std::uint64_t epoch, const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (epoch != epoch_) return;
  fail_all(failure);
  broken_.reset();
}

std::optional<Failure> Control::broken(std::uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  return epoch == epoch_ ? broken_ : std::nullopt;
}

void Control::serve() {
  const std::lock_guard lock(mutex_);
  socket_.serve([this] { receive(); }, [] {});
}

Outcome<Control::Started> Control::start(std::unique_lock<std::mutex>& lock, std::uint64_t epoch, Call* call,
                                         Nanoseconds deadline) {
  while (true) {
    if (epoch != epoch_ || !socket_.is_open()) return tl::unexpected(no_connection());
    if (calls_.size() < PSTW_REQUESTS_MAX) break;
    Waiter room;
    for_room_.push_back(&room);
    const bool found = socket_.wait(
        lock, room, deadline, [this] { receive(); }, [] {});
    std::erase(for_room_, &room);
    if (!found)
      return fail(FailureKind::deadline, fmt::format("{} requests wait for the service", calls_.size()));
  }
  const std::uint64_t request = ++last_request_;
  calls_.emplace(request, call);
  return Started{request, socket_.shared()};
}

Outcome<void> Control::send(const Started& to, const wire::ClientMessage& message, std::span<const int> fds,
                            Nanoseconds deadline) {
  const auto bytes = wire::encode(to.request, message);
  if (!bytes) {
    return fail(FailureKind::invalid_argument,
                fmt::format("the request can't be sent: {}", bytes.error().operation));
  }
  while (true) {
    const auto sent = send_message(to.socket->get(), *bytes, fds);
    if (sent) return {};
    if (sent.error().code == Errc::closed) return tl::unexpected(no_connection());
    if (sent.error().code != Errc::busy)
      return tl::unexpected(to_failure(sent.error(), "sending to the service"));
    if (monotonic_now() >= deadline)
      return fail(FailureKind::deadline, "the service does not read its socket");
    poll_until(to.socket->get(), POLLOUT, deadline);
  }
}

Outcome<Reply> Control::ask(std::uint64_t epoch, const wire::ClientMessage& message, Nanoseconds patience,
                            std::span<const int> fds) {
  Call call;
  Nanoseconds deadline = deadline_in(patience);
  std::unique_lock lock(mutex_);
  const auto started = start(lock, epoch, &call, deadline);
  if (!started) return tl::unexpected(started.error());
  lock.unlock();
  auto sent = send(*started, message, fds, deadline);
  lock.lock();
  if (!sent && !call.done) {
    if (epoch == epoch_) calls_.erase(started->request);
    return tl::unexpected(std::move(sent.error()));
  }
  const auto step = [&] {
    if (std::exchange(call.progressed, false)) deadline = deadline_in(patience);
  };
  while (!socket_.wait(
      lock, call, deadline, [this] { receive(); }, step)) {
    if (monotonic_now() < deadline) continue;  // There was progress.
    Started cancel{0, started->socket};
    if (epoch == epoch_) {
      calls_[started->request] = nullptr;
      cancel.request = ++last_request_;
    }
    lock.unlock();
    if (cancel.request != 0) (void)send(cancel, wire::CancelRequest{started->request}, {}, Nanoseconds(0));
    return tl::unexpected(too_late(patience));
  }
  return std::move(*call.answer);
}

void Control::post(std::uint64_t epoch, const wire::ClientMessage& message) {
  const Nanoseconds deadline = deadline_in(post_patience);
  std::unique_lock lock(mutex_);
  const auto started = start(lock, epoch, nullptr, deadline);
  lock.unlock();
  if (started) (void)send(*started, message, {}, deadline);
}

void Control::receive() {
  while (socket_.is_open()) {
    const auto length = receive_message(socket_.fd(), buffer_, fds_);
    if (length) {
      handle(std::span(buffer_).first(*length));
      continue;
    }
    switch (length.error().code) {
      case Errc::busy: return;
      case Errc::closed: return break_off(no_connection());
      case Errc::exhausted:
        descriptors_lost(
            std::span(buffer_).first(static_cast<std::size_t>(std::max(length.error().native, 0))));
        break;
      default: return break_off(to_failure(length.error(), "reading from the service"));
    }
  }
}

void Control::handle(std::span<const std::byte> datagram) {
  auto decoded = wire::decode_service_message(datagram, fds_.size());
  if (!decoded) {
    return break_off({FailureKind::protocol_violation,
                      fmt::format("the service broke a rule: {}", decoded.error().operation), ""});
  }
  if (std::holds_alternative<wire::Closing>(decoded->message)) return listener_.on_closing();
  if (const auto* pressure = std::get_if<wire::Pressure>(&decoded->message))
    return listener_.on_pressure(*pressure);
  if (const auto* gone = std::get_if<wire::TableGone>(&decoded->message))
    return listener_.on_table_gone(*gone);
  if (std::holds_alternative<wire::Progress>(decoded->message)) {
    const auto found = calls_.find(decoded->request);
    if (found == calls_.end() || found->second == nullptr) return;
    found->second->progressed = true;
    return;
  }
  answer(decoded->request, Reply{std::move(decoded->message), std::move(fds_)});
}

void Control::answer(std::uint64_t request, Outcome<Reply> reply) {
  const auto found = calls_.find(request);
  if (found == calls_.end()) {
    return break_off({FailureKind::protocol_violation,
                      fmt::format("an answer to request {}, which was not made", request), ""});
  }
  Call* const call = found->second;
  calls_.erase(found);
  if (!for_room_.empty()) {
    for_room_.front()->done = true;
    for_room_.front()->ready.notify_one();
    for_room_.erase(for_room_.begin());
  }
  if (call == nullptr) return give_back(reply);  // Its descriptors are closed with it.
  call->answer = std::move(reply);
  call->done = true;
  call->ready.notify_one();
}

void Control::give_back(const Outcome<Reply>& late) {
  const auto undo = late ? undo_of(late->message) : std::nullopt;
  if (!undo) return;
  const auto* const table = std::get_if<wire::TableReply>(&late->message);
  const Started request{++last_request_, socket_.shared()};
  calls_.emplace(request.request, nullptr);
  // The socket of a device comes with the first table there, once a connection.
  if ((table == nullptr || !table->device_socket) && send(request, *undo, {}, Nanoseconds(0))) return;
  break_off({FailureKind::deadline, "an answer came too late to be used, and could not be given back", ""});
}

void Control::descriptors_lost(std::span<const std::byte> datagram) {
  const std::uint64_t request = wire::request_of(datagram);
  // What the service opened for us can't be named any more; only a new connection is clean again.
  const Failure failure{FailureKind::fd_limit,
                        "this process is out of descriptors: those of an answer were lost",
                        "raise its RLIMIT_NOFILE"};
  if (const auto found = calls_.find(request); found != calls_.end())
    answer(request, tl::unexpected(failure));
  break_off(failure);
}

void Control::break_off(Failure failure) {
  broken_ = std::move(failure);
  fail_all(*broken_);
}

void Control::fail_all(const Failure& failure) {
  socket_.close();
  for (const auto& [request, call] : calls_) {
    if (call == nullptr) continue;
    call->answer = tl::unexpected(failure);
    call->done = true;
    call->ready.notify_one();
  }
  calls_.clear();
  for (Waiter* const room : for_room_) {
    room->done = true;
    room->ready.notify_one();
  }
  for_room_.clear();
}

}  // namespace penstock
