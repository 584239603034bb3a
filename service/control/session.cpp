// SPDX-License-Identifier: Apache-2.0
#include "service/control/session.hpp"

#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/base/version.hpp"
#include "service/control/queries.hpp"
#include "service/protocol/control_codec.hpp"
#include "service/protocol/sealed_blob.hpp"

namespace penstock {

Session::Session(ServiceState& service, SessionId id, std::shared_ptr<ControlChannel> channel,
                 PeerIdentity peer)
    : service_(service),
      id_(id),
      channel_(std::move(channel)),
      peer_(std::move(peer)),
      greeting_timer_(service.context),
      process_(service.context),
      name_(peer_.command) {}

void Session::start() {
  channel_->start(
      {.message = [self = shared_from_this()](
                      std::uint64_t request, wire::ClientMessage&& message,
                      UniqueFds&& fds) { self->receive(request, std::move(message), std::move(fds)); },
       .closed = [self = shared_from_this()](FailureKind kind,
                                             const std::string& text) { self->end(kind, text); }});
  watch_process();
  await_greeting();
}

// A connection that says nothing holds descriptors; it may come back when it has something to say.
void Session::await_greeting() {
  greeting_timer_.expires_after(greeting_limit);
  greeting_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && !self->greeted_) self->end(FailureKind::deadline, "it did not say hello in time");
  });
}

void Session::watch_process() {
  if (!peer_.pidfd) return;
  process_.assign(peer_.pidfd.release());
  process_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                      [self = shared_from_this()](const boost::system::error_code& error) {
                        if (!error) self->end(FailureKind::disconnected, "the process has ended");
                      });
}

bool Session::is_admin() const {
  return peer_.uid == 0 || is_member(peer_, service_.config.service.admin_group);
}

void Session::receive(std::uint64_t request, wire::ClientMessage&& message, UniqueFds&& descriptors) {
  if (ended_) return;
  const bool greeting = std::holds_alternative<wire::Hello>(message);
  if (greeting == greeted_) {
    const Failure failure{FailureKind::protocol_violation,
                          greeted_ ? "a second hello" : "the first message must be hello", ""};
    channel_->send(request, failure);
    end(failure.kind, failure.message);
    return;
  }
  if (!std::holds_alternative<wire::CancelRequest>(message)) {
    const auto more_files = std::get_if<wire::OpenCheckpoint>(&message);
    if (!unanswered_.insert(request).second && more_files == nullptr) {
      end(FailureKind::protocol_violation, "two requests with one number");
      return;
    }
    if (unanswered_.size() > PSTW_REQUESTS_MAX) {
      return refuse(request, {FailureKind::busy, fmt::format("{} requests are unanswered", PSTW_REQUESTS_MAX),
                              "wait for answers before asking more"});
    }
    if (service_.closing) return refuse(request, {FailureKind::closing, "the service is stopping", ""});
  }
  std::visit([&](auto& one) { on(request, std::move(one), std::move(descriptors)); }, message);
}

void Session::on(std::uint64_t request, wire::Hello&& hello, UniqueFds&&) {
  if (hello.protocol != PSTW_PROTOCOL) {
    unanswered_.erase(request);
    channel_->send(request, wire::Refused{.service_protocol = PSTW_PROTOCOL,
                                          .client_protocol = hello.protocol,
                                          .text = fmt::format("the service speaks protocol {}, the client {}",
                                                              PSTW_PROTOCOL, hello.protocol)});
    end(FailureKind::protocol_mismatch, fmt::format("the client speaks protocol {}", hello.protocol));
    return;
  }
  greeted_ = true;
  greeting_timer_.cancel();
  for (const auto& desk : service_.admissions) desk->open(id_, peer_.uid);
  service_.host_buffers->open(id_, peer_.uid);
  wants_events_ = hello.events;
  if (!hello.name.empty()) name_ = std::move(hello.name);
  wire::HelloReply reply{
      .session = raw(id_),
      .version = std::string(project_version),
      .revoke_deadline_ns = static_cast<std::uint64_t>(service_.config.service.revoke_deadline.count()),
      .cooperative_deadline_ns =
          static_cast<std::uint64_t>(service_.config.service.cooperative_deadline.count()),
      .devices = {}};
  for (const auto& device : service_.devices) {
    const DeviceLink::Description& description = device->description();
    reply.devices.push_back({.id = description.id,
                             .kind = description.kind == "cuda"  ? wire::DeviceKind::cuda
                                     : description.kind == "hip" ? wire::DeviceKind::hip
                                                                 : wire::DeviceKind::host,
                             .frame_bytes = description.limits.frame_bytes,
                             .tensor_alignment = description.limits.tensor_alignment,
                             .capacity_bytes = description.limits.capacity_bytes});
  }
  answer(request, reply);
  spdlog::info("client {} connected: {} (pid {}, uid {})", raw(id_), name_, peer_.pid, peer_.uid);
}

void Session::on(std::uint64_t, wire::CancelRequest&& cancel, UniqueFds&&) {
  // Only these wait long enough to be worth it; everything else answers as it went.
  for (const auto& desk : service_.admissions) desk->cancel(id_, cancel.cancelled);
  if (buffer_reader_) buffer_reader_->cancel(cancel.cancelled);
}

void Session::on(std::uint64_t request, wire::Query&& query, UniqueFds&&) {
  Queries(service_, *this).run(request, query);
}

void Session::answer(std::uint64_t request, const wire::ServiceMessage& message,
                     std::vector<UniqueFd> descriptors) {
  unanswered_.erase(request);
  if (!ended_) channel_->send(request, message, std::move(descriptors));
}

void Session::refuse(std::uint64_t request, const Failure& failure) { answer(request, failure); }

void Session::answer_json(std::uint64_t request, std::string json) {
  if (json.size() <= wire::inline_json_bytes_max) {
    answer(request, wire::QueryReply{.json = std::move(json), .json_bytes = 0});
    return;
  }
  auto blob = make_sealed_blob("penstock-json", std::as_bytes(std::span(json)));
  if (!blob) return refuse(request, {FailureKind::exhausted, "no memory for the answer", ""});
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(*blob));
  answer(request, wire::QueryReply{.json = {}, .json_bytes = json.size()}, std::move(fds));
}

Outcome<DeviceLink*> Session::device_at(std::uint32_t index) const {
  if (index < service_.devices.size()) return service_.devices[index].get();
  return fail(FailureKind::not_found, fmt::format("there is no device number {}", index));
}

void Session::announce(const wire::ServiceMessage& event) {
  if (wants_events_ && !ended_) channel_->send_event(event);
}

void Session::announce_closing() {
  announce(wire::Closing{});
  for (const std::uint64_t request : std::exchange(unanswered_, {})) {
    channel_->send(request, Failure{FailureKind::closing, "the service is stopping", ""});
  }
}

void Session::kill() {
  if (process_.is_open()) ::syscall(SYS_pidfd_send_signal, process_.native_handle(), SIGKILL, nullptr, 0);
}

void Session::leave(OpenTable& open) {
  if (open.overlay) {
    service_.tables.detach(*open.overlay, id_);
    service_.tables.close(open.overlay);
  }
  service_.tables.detach(*open.table, id_);
  if (open.table->key.empty()) service_.tables.close(open.table);
}

void Session::end(FailureKind reason, std::string_view text) {
  if (std::exchange(ended_, true)) return;
  const auto self = shared_from_this();
  channel_->close();
  boost::system::error_code ignored;
  process_.close(ignored);
  greeting_timer_.cancel();
  // The dataplane drops the session before its tables are left: its revokes then count as acknowledged.
  for (const auto& [device, socket] : connected_) device->send(mail::CloseSession{.session = id_});
  for (auto& [number, open] : tables_) leave(open);
  tables_.clear();
  for (auto& [handle, checkpoint] : checkpoints_) --checkpoint->sessions;
  checkpoints_.clear();
  drop_files();
  if (greeted_) {
    for (const auto& desk : service_.admissions) desk->close(id_);
    service_.copies.close(id_);
    // A client that uses its buffer must not find it empty only because the service is stopped.
    if (reason == FailureKind::closing)
      service_.host_buffers->leave(id_);
    else
      service_.host_buffers->close(id_);
  }
  service_.sessions.erase(id_);
  if (service_.kernel != nullptr) service_.kernel->forget_client(raw(id_));
  service_.session_ended(reason);
  spdlog::info("client {} gone: {} ({}: {})", raw(id_), name_, failure_kind_name(reason), text);
  service_.drop_idle();
}

std::uint64_t Session::pinned_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [number, open] : tables_) {
    const std::uint64_t page_bytes = open.table->device->description().limits.frame_bytes;
    for (std::uint32_t page = 0; page < open.table->pages; ++page) {
      if (open.pins->count(page) > 0) bytes += page_bytes;
    }
  }
  return bytes;
}

std::uint64_t Session::anonymous_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [number, open] : tables_) {
    if (open.table->kind == TableKind::anonymous) bytes += open.table->resident_bytes();
  }
  return bytes;
}

std::uint64_t Session::private_bytes() const {
  std::uint64_t bytes = anonymous_bytes();
  for (const auto& [number, open] : tables_) {
    if (open.overlay) bytes += open.overlay->resident_bytes();
  }
  return bytes;
}

}  // namespace penstock
