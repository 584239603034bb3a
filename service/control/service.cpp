// SPDX-License-Identifier: Apache-2.0
#include "service/control/service.hpp"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "dataplane/base/units.hpp"
#include "service/control/session.hpp"

namespace penstock {
namespace {

// As long as a device has for its reads, and less than the process has for all.
constexpr Nanoseconds openers_stop_limit = std::chrono::seconds(3);

constexpr auto tier_log_period = std::chrono::milliseconds(250);

std::string_view name_of(PagerDecision::Kind kind) {
  switch (kind) {
    case PagerDecision::Kind::load: return "load";
    case PagerDecision::Kind::evict: return "evict";
    case PagerDecision::Kind::offload: return "offload";
    case PagerDecision::Kind::refuse: return "refuse";
    case PagerDecision::Kind::stuck: return "stuck";
    case PagerDecision::Kind::unstuck: return "unstuck";
    case PagerDecision::Kind::io_error: return "io_error";
    case PagerDecision::Kind::corrupt: return "corrupt";
  }
  return "";
}

std::string_view name_of(TierLoss why) {
  switch (why) {
    case TierLoss::replaced: return "replaced";
    case TierLoss::budget: return "budget";
    case TierLoss::forgotten: return "forgotten";
  }
  return "";
}

std::string_view name_of(EvictReason reason) {
  switch (reason) {
    case EvictReason::fault: return "fault";
    case EvictReason::prefetch: return "prefetch";
    case EvictReason::budget: return "budget";
    case EvictReason::request: return "request";
    case EvictReason::session_closed: return "session_closed";
    case EvictReason::table_closed: return "table_closed";
    case EvictReason::released: return "released";
  }
  return "";
}

// Its page, by the place from where it can be read again.
std::pair<std::string_view, std::uint64_t> reload_input(const ServiceState& state,
                                                        const PagerDecision& decision) {
  const auto table = state.tables.find(decision.table);
  switch (table ? table->source_place : SourcePlace::disk) {
    case SourcePlace::locked_host: return {"reload_from_locked_host_bytes", decision.bytes};
    case SourcePlace::page_cache: return {"reload_from_page_cache_bytes", decision.bytes};
    case SourcePlace::client_memory: return {"refill_from_client_memory_bytes", decision.bytes};
    case SourcePlace::client_swap: return {"refill_from_client_swap_bytes", decision.bytes};
    case SourcePlace::disk: break;
  }
  return {"reload_from_disk_bytes", decision.bytes};
}

std::string subject_of(const ServiceState& state, const PagerDecision& decision) {
  if (const auto table = state.tables.find(decision.table); table && !table->checkpoints.empty()) {
    return table->checkpoints.front()->id;
  }
  if (raw(decision.session) != 0) return fmt::format("client {}", raw(decision.session));
  return fmt::format("table {}", raw(decision.table));
}

}  // namespace

Service::Service(boost::asio::io_context& context, const Config& config)
    : context_(context),
      state_(std::make_unique<ServiceState>(context, config)),
      stop_timer_(context),
      tier_timer_(context) {}

Service::~Service() {
  state_->disposal->stop();
  listener_.reset();
  // Sessions hold channels whose handlers hold the sessions: ending them cuts the circle.
  while (!state_->sessions.empty())
    state_->sessions.begin()->second->end(FailureKind::closing, "the service stops");
  // Channels let go of their handlers in a later turn, which a stopped loop would never come to.
  context_.restart();
  context_.poll();
}

void Service::add_device(const Device& device) {
  state_->devices.push_back(
      std::make_unique<DeviceLink>(context_, device.description, *device.mail, *device.news, *device.stats));
  DeviceLink& link = *state_->devices.back();
  link.on_news({.peer_gone = [this](const PeerGone& gone) { hear(gone); },
                .decision = [this](const PagerDecision& decision) { hear(decision); },
                .stopped = [this](const PagerStopped& stopped) { device_stopped(stopped); },
                .condition = [this, index = state_->devices.size() -
                                            1](const ConditionChanged& changed) { hear(index, changed); }});
  const LedgerOptions options{.room = {.capacity_bytes = device.description.limits.capacity_bytes,
                                       .headroom_bytes = device.headroom_bytes,
                                       .foreign_bytes = {}},
                              .per_user_bytes = state_->config.per_user_bytes,
                              .frame_bytes = device.description.limits.frame_bytes,
                              .frames_max = device.frames_max};
  state_->admissions.push_back(std::make_unique<AdmissionDesk>(
      context_, link, options,
      [this](std::string_view kind, SessionId session, std::uint64_t bytes, std::string_view reason,
             std::vector<std::pair<std::string_view, std::uint64_t>> inputs) {
        state_->decide(kind, fmt::format("client {}", raw(session)), bytes, reason, std::move(inputs));
      }));
  state_->usage.emplace_back();
  // What the ledger starts from: it orders only changes.
  link.send(
      mail::ChangeBudget{.request = {}, .bytes = state_->admissions.back()->figures().pager_budget_bytes});
}

void Service::set_host_memory(HeadroomSource& headroom, std::uint64_t locked_budget_bytes) {
  state_->host_buffers =
      std::make_unique<HostBuffers>(state_->opener, headroom,
                                    HostBudgetOptions{.budget_bytes = locked_budget_bytes,
                                                      .per_user_bytes = state_->config.per_user_bytes});
}

void Service::set_kernel_watch(KernelWatch& watch) {
  state_->kernel = &watch;
  set_checkpoint_hooks();
}

void Service::set_protection(ProtectionReport report) { state_->protection = std::move(report); }

void Service::set_host_tier(std::shared_ptr<HostTier> tier) {
  tier_ = std::move(tier);
  state_->host_buffers->share_with(tier_);
  set_checkpoint_hooks();
  log_dropped();
}

void Service::set_checkpoint_hooks() {
  state_->checkpoints.set_hooks({.opened =
                                     [watch = state_->kernel, tier = tier_](const Checkpoint& one) {
                                       if (watch != nullptr) watch->follow(one.id, one.path, one.file);
                                       if (tier) tier->announce(one.identity());
                                     },
                                 .forgotten =
                                     [watch = state_->kernel, tier = tier_](const Checkpoint& one) {
                                       if (watch != nullptr) watch->forget(one.id);
                                       if (tier) tier->forget(one.identity());
                                     }});
}

// What the tier has dropped since; it does so on whatever thread it is asked.
void Service::log_dropped() {
  for (const HostTier::Dropped& dropped : tier_->take_dropped()) {
    state_->decide("tier_evict", dropped.checkpoint, dropped.bytes, name_of(dropped.why),
                   {{"used_bytes", dropped.used_bytes}, {"budget_bytes", dropped.budget_bytes}});
  }
  tier_timer_.expires_after(tier_log_period);
  tier_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) log_dropped();
  });
}

void Service::serve(const ServiceSocket& socket) {
  listener_ = std::make_unique<Listener>(context_, socket, [this](UniqueFd client, PeerIdentity peer) {
    accept(std::move(client), std::move(peer));
  });
}

void Service::accept(UniqueFd socket, PeerIdentity peer) {
  if (state_->closing || state_->sessions.size() >= clients_max) {
    state_->session_ended(FailureKind::not_permitted);
    return;
  }
  drop_mute(peer.uid);
  const SessionId id{++last_session_};
  auto channel = std::make_shared<ControlChannel>(context_, std::move(socket));
  if (state_->kernel != nullptr && peer.pidfd)
    state_->kernel->follow_client(raw(id), {.pid = peer.pid, .pidfd = peer.pidfd.get()});
  auto session = std::make_shared<Session>(*state_, id, std::move(channel), std::move(peer));
  state_->sessions.emplace(id, session);
  session->start();
}

void Service::drop_mute(uid_t user) {
  std::size_t mute = 0;
  std::shared_ptr<Session> oldest;
  for (const auto& [id, session] : state_->sessions) {
    if (session->greeted() || session->peer().uid != user) continue;
    ++mute;
    if (!oldest || session->id() < oldest->id()) oldest = session;
  }
  if (mute >= mute_per_user_max) oldest->end(FailureKind::busy, "too many of its user have not said hello");
}

void Service::hear(const PeerGone& gone) {
  const auto found = state_->sessions.find(gone.session);
  if (found == state_->sessions.end()) return;
  const auto session = found->second;
  session->end(gone.reason, gone.reason == FailureKind::disconnected
                                ? "its device socket hung up"
                                : "a rule of the device socket was broken");
}

void Service::hear(const PagerDecision& decision) {
  const bool evicted = decision.kind == PagerDecision::Kind::evict;
  std::vector<std::pair<std::string_view, std::uint64_t>> inputs{
      {"used_bytes", decision.used_bytes}, {"budget_bytes", decision.budget_bytes}, {"page", decision.page}};
  if (evicted) inputs.push_back(reload_input(*state_, decision));
  state_->decide(name_of(decision.kind), subject_of(*state_, decision), decision.bytes,
                 evicted                                         ? name_of(decision.evict_reason)
                 : decision.kind == PagerDecision::Kind::load    ? "fault or prefetch"
                 : decision.kind == PagerDecision::Kind::corrupt ? "its bytes are not those that were loaded"
                                                                 : failure_kind_name(decision.reason),
                 std::move(inputs));
  if (decision.kind == PagerDecision::Kind::corrupt) {
    spdlog::error("page {} of checkpoint {} is corrupt: {}; it is read again once nobody uses it",
                  decision.page, subject_of(*state_, decision), decision.detail);
  }
  const bool stuck = decision.kind == PagerDecision::Kind::stuck;
  if (!stuck && decision.kind != PagerDecision::Kind::unstuck) return;
  const auto found = state_->sessions.find(decision.session);
  if (found == state_->sessions.end()) return;
  const auto session = found->second;
  session->set_stuck(stuck);
  spdlog::warn("client {} ({}, pid {}) {}", raw(decision.session), session->name(), session->peer().pid,
               stuck ? "does not answer: its pages can't be evicted" : "answers again");
  if (stuck && state_->config.service.on_unresponsive == OnUnresponsive::kill) {
    spdlog::warn("client {} is killed, as service.on_unresponsive says", raw(decision.session));
    session->kill();
    session->end(FailureKind::revoke_timeout, "it did not answer a revoke in time");
  }
}

// A device that recovers is not unhealthy yet: demands wait for it, within their deadlines.
void Service::hear(std::size_t device, const ConditionChanged& changed) {
  const DeviceCondition condition = changed.condition;
  const std::string& id = state_->devices[device]->description().id;
  const std::string_view name = device_condition_name(condition);
  state_->decide("device", id, 0, name, {});
  state_->admissions[device]->set_healthy(condition != DeviceCondition::quarantined);
  switch (condition) {
    case DeviceCondition::ready: spdlog::info("device {} works again", id); break;
    case DeviceCondition::recovering:
      spdlog::warn("device {}: the process that fills its memory is gone; another one is started", id);
      break;
    case DeviceCondition::quarantined:
      spdlog::error(
          "device {}: quarantined, because its driver or its writers keep failing; {}; it is tried again", id,
          changed.contents_lost ? "what it held is lost" : "what is resident stays");
      break;
  }
  if (changed.contents_lost) drop_lost(*state_->devices[device]);
}

// Who had something of it mapped holds addresses of nothing: their sessions end, and can be opened again. Then nobody
// maps anything any more, and all pages can go.
void Service::drop_lost(DeviceLink& device) {
  std::vector<std::shared_ptr<Session>> users;
  for (const auto& [id, session] : state_->sessions) {
    const bool uses = std::ranges::any_of(
        session->tables(), [&](const auto& entry) { return entry.second.table->device == &device; });
    if (uses) users.push_back(session);
  }
  for (const auto& session : users) {
    session->end(FailureKind::device_unhealthy, "the device was lost, and with it all that it held");
  }
  device.send(mail::EvictTable{.request = {}, .any_table = true, .table = {}, .bytes = ~0ull});
}

void Service::stop(std::function<void(std::string)> stopped) {
  if (state_->closing) return;
  state_->closing = true;
  stopped_ = std::move(stopped);
  openers_stop_by_ = monotonic_now() + openers_stop_limit;
  if (listener_) listener_->stop();
  tier_timer_.cancel();
  for (const auto& [id, session] : state_->sessions) session->announce_closing();
  if (state_->devices.empty()) {
    boost::asio::post(context_, [this] { finish_stop(); });
    return;
  }
  for (const auto& device : state_->devices) device->send(mail::Stop{});
}

void Service::device_stopped(const PagerStopped& stopped) {
  if (stopped.copies_left) spdlog::warn("a device was still copying; that ends with this process");
  if (!stopped.stuck_on.empty()) stuck_on_ += (stuck_on_.empty() ? "" : ", ") + with_path(stopped.stuck_on);
  const bool all = std::ranges::all_of(state_->devices, [](const auto& device) { return device->stopped(); });
  if (all) finish_stop();
}

// The pager knows a checkpoint by its id alone.
std::string Service::with_path(const std::string& subject) const {
  for (const auto& [id, checkpoint] : state_->checkpoints.entries()) {
    if (subject.find(id) != std::string::npos) return fmt::format("{} ({})", subject, checkpoint->path);
  }
  return subject;
}

void Service::finish_stop() {
  if (!stopped_) return;
  // What reads somebody's file gets time to end; nothing tells when it does.
  for (const auto& [id, session] : state_->sessions) session->stop_reading();
  std::vector<std::string> running = state_->opener.running();
  std::ranges::move(state_->buffer_readers.running(), std::back_inserter(running));
  if (!running.empty() && monotonic_now() < openers_stop_by_) {
    stop_timer_.expires_after(std::chrono::milliseconds(10));
    return stop_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) finish_stop();
    });
  }
  for (const std::string& subject : running) {
    stuck_on_ += (stuck_on_.empty() ? "" : ", ") + subject;
  }
  const auto sessions = state_->sessions;
  for (const auto& [id, session] : sessions) session->end(FailureKind::closing, "the service stops");
  std::exchange(stopped_, nullptr)(stuck_on_);
}

void Service::log_state() const {
  for (const auto& device : state_->devices) {
    const PagerStats& stats = device->stats();
    spdlog::info("device {}: {} resident of {}, pinned {}, stuck {}, {} sessions", device->description().id,
                 format_bytes(stats.resident_bytes.load()), format_bytes(stats.budget_bytes.load()),
                 format_bytes(stats.pinned_bytes.load()), format_bytes(stats.stuck_bytes.load()),
                 stats.sessions.load());
  }
  for (const auto& [id, checkpoint] : state_->checkpoints.entries()) {
    spdlog::info("checkpoint {}: {}, {}, {} clients", id, checkpoint->name,
                 format_bytes(checkpoint->identity().bytes), checkpoint->sessions);
  }
  for (const auto& [id, session] : state_->sessions) {
    spdlog::info("client {}: {} (pid {}), pinned {}, private {}{}", raw(id), session->name(),
                 session->peer().pid, format_bytes(session->pinned_bytes()),
                 format_bytes(session->private_bytes()), session->stuck() ? ", stuck" : "");
  }
}

}  // namespace penstock
