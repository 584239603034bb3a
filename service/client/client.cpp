// SPDX-License-Identifier: Apache-2.0
// Client: its connections.
#include "service/client/client.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "service/client/greeting.hpp"
#include "service/client/status.hpp"

namespace penstock {
namespace {

pst_event event_of(pst_event_kind kind) {
  pst_event event{};
  event.size = sizeof event;
  event.kind = static_cast<std::uint32_t>(kind);
  return event;
}

}  // namespace

const char* kind_name(wire::DeviceKind kind) {
  constexpr std::array names{"host", "cuda", "hip"};
  return names[static_cast<std::size_t>(kind)];
}

Outcome<std::unique_ptr<Client>> Client::connect(ClientOptions options) {
  std::unique_ptr<Client> client(new Client(std::move(options)));
  const auto birth = birth_word();
  if (!birth) return tl::unexpected(to_failure(birth.error(), "the library can't start"));
  client->birth_ = *birth;
  auto events = EventQueue::create(client->options_.callback, client->options_.callback_context);
  if (!events) return tl::unexpected(to_failure(events.error(), "the library can't start"));
  client->events_ = std::move(*events);
  auto agent = Agent::start([](void* self, std::uint64_t key) { static_cast<Client*>(self)->serve(key); },
                            client.get());
  if (!agent) return tl::unexpected(to_failure(agent.error(), "the library can't start"));
  client->agent_ = std::move(*agent);
  auto greeted =
      greet(client->options_.socket, client->options_.name, deadline_in(client->options_.connect_timeout));
  if (!greeted) return tl::unexpected(std::move(greeted.error()));
  if (auto adopted = client->adopt(std::move(greeted->socket), std::move(greeted->reply)); !adopted) {
    return tl::unexpected(std::move(adopted.error()));
  }
  return client;
}

Client::~Client() {
  events_->stop();  // Its callback may be using everything else.
  agent_.reset();
  leave_copies();
  leave_tables();
}

std::uint32_t Client::session() {
  const std::lock_guard lock(state_);
  return greeting_.session;
}

std::vector<wire::Device> Client::devices() {
  const std::lock_guard lock(state_);
  return greeting_.devices;
}

std::vector<Paging*> Client::pagings() {
  const std::lock_guard lock(state_);
  std::vector<Paging*> all;
  for (const auto& paging : pagings_) all.push_back(paging.get());
  return all;
}

Outcome<std::uint64_t> Client::connected(Nanoseconds deadline) {
  std::unique_lock lock(state_);
  while (!connected_) {
    if (!options_.reconnect) return fail(FailureKind::disconnected, "the connection to the service is lost");
    if (!connecting_) break;
    if (deadline == never) {
      state_changed_.wait(lock);
    } else if (state_changed_.wait_until(lock, std::chrono::steady_clock::time_point(deadline)) ==
               std::cv_status::timeout) {
      return fail(FailureKind::deadline, "no new connection to the service within the time given");
    }
  }
  if (connected_) return epoch_;
  connecting_ = true;
  lock.unlock();
  auto greeted =
      greet(options_.socket, options_.name, std::min(deadline, deadline_in(options_.connect_timeout)));
  Outcome<std::uint64_t> epoch = tl::unexpected(Failure{});
  if (greeted) {
    epoch = adopt(std::move(greeted->socket), std::move(greeted->reply));
  } else {
    epoch = tl::unexpected(std::move(greeted.error()));
    // To the caller it is one thing: what it had is gone, and not back yet.
    if (epoch.error().kind == FailureKind::unreachable) epoch.error().kind = FailureKind::disconnected;
  }
  lock.lock();
  connecting_ = false;
  lock.unlock();
  state_changed_.notify_all();
  if (epoch) events_->add(event_of(PST_EVENT_RECONNECTED));
  return epoch;
}

Outcome<std::uint64_t> Client::adopt(UniqueFd socket, wire::HelloReply reply) {
  auto shared = std::make_shared<const ForkAwareFd>(std::move(socket));
  const auto watch = SocketWatch::add(agent_->epoll(), shared->get(), 0);
  if (!watch) return tl::unexpected(to_failure(watch.error(), "the socket can't be watched"));
  std::uint64_t epoch;
  {
    const std::lock_guard lock(state_);
    for (const wire::Device& device : reply.devices) {
      const bool known = std::any_of(pagings_.begin(), pagings_.end(),
                                     [&](const auto& one) { return one->device() == device.id; });
      if (!known) pagings_.push_back(std::make_unique<Paging>(device.id, *events_));
    }
    greeting_ = std::move(reply);
    epoch = epoch_ + 1;
  }
  control_.open(epoch, std::move(shared), *watch);
  {
    const std::lock_guard lock(state_);
    epoch_ = epoch;
    connected_ = true;
  }
  book_copies_again(epoch);
  find_losses();  // It may have broken while nobody could be told.
  return epoch;
}

Outcome<Client::Device> Client::device(const char* id) {
  const std::lock_guard lock(state_);
  for (std::uint32_t i = 0; i < greeting_.devices.size(); ++i) {
    const wire::Device& facts = greeting_.devices[i];
    if (id != nullptr && facts.id != id && kind_name(facts.kind) != std::string_view(id)) continue;
    const auto paging = std::find_if(pagings_.begin(), pagings_.end(),
                                     [&](const auto& one) { return one->device() == facts.id; });
    return Device{i, facts, paging->get()};
  }
  return fail(FailureKind::not_found,
              id == nullptr ? "the service has no device" : "the service has no device of that id",
              "`penstock status` lists the devices");
}

void Client::serve(std::uint64_t key) {
  if (key == 0) {
    control_.serve();
  } else {
    Paging* paging;
    {
      const std::lock_guard lock(state_);
      paging = pagings_[key - 1].get();
    }
    paging->serve();
  }
  find_losses();
}

std::uint64_t Client::key_of(const Paging& paging) {
  const std::lock_guard lock(state_);
  const auto found =
      std::find_if(pagings_.begin(), pagings_.end(), [&](const auto& one) { return one.get() == &paging; });
  return static_cast<std::uint64_t>(found - pagings_.begin()) + 1;
}

std::optional<std::uint64_t> Client::present_connection() {
  const std::lock_guard lock(state_);
  return connected_ ? std::optional(epoch_) : std::nullopt;
}

void Client::find_losses() {
  const auto epoch = present_connection();
  if (!epoch) return;
  auto failure = control_.broken(*epoch);
  for (Paging* const paging : pagings()) {
    if (!failure) failure = paging->broken(*epoch);
  }
  if (failure) lose(*epoch, *failure);
}

void Client::lose(std::uint64_t epoch, const Failure& failure) {
  {
    const std::lock_guard lock(state_);
    if (epoch != epoch_ || !connected_) return;
    connected_ = false;
  }
  control_.lose(epoch, failure);
  for (Paging* const paging : pagings()) paging->lose(epoch, failure);
  events_->add(event_of(PST_EVENT_DISCONNECTED));
}

void Client::on_closing() { events_->add(event_of(PST_EVENT_CLOSING)); }

void Client::on_pressure(const wire::Pressure& pressure) {
  pst_event event = event_of(PST_EVENT_PRESSURE);
  event.level = static_cast<std::uint32_t>(pressure.level);
  event.wanted_bytes = pressure.excess_bytes;
  events_->add(event);
}

void Client::on_table_gone(const wire::TableGone& gone) {
  for (Paging* const paging : pagings()) paging->set_gone(gone.table, gone.reason);
}

}  // namespace penstock
