// SPDX-License-Identifier: Apache-2.0
// The service thread: accepts clients, owns their sessions, hears the devices' news, stops in order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "service/control/service_state.hpp"
#include "service/ipc/listener.hpp"

namespace penstock {

class Service {
 public:
  static constexpr std::size_t clients_max = 4096;
  // Connections of one user that have not said hello; beyond that the oldest of them goes.
  static constexpr std::size_t mute_per_user_max = 64;

  Service(boost::asio::io_context& context, const Config& config);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // What a device needs beside its thread. The mailboxes and figures outlive the service.
  struct Device {
    DeviceLink::Description description;
    Mailbox<PagerMail>* mail = nullptr;
    Mailbox<PagerNews>* news = nullptr;
    const PagerStats* stats = nullptr;
    std::uint64_t headroom_bytes = 0;
    std::uint64_t frames_max = UINT64_MAX;
  };
  void add_device(const Device& device);
  void set_host_memory(HeadroomSource& headroom, std::uint64_t locked_budget_bytes);
  // After set_host_memory, where a GPU uses the tier.
  void set_host_tier(std::shared_ptr<HostTier> tier);
  // Before the clients. The watch outlives the service.
  void set_kernel_watch(KernelWatch& watch);
  // For whoever asks what keeps the service alive.
  void set_protection(ProtectionReport report);
  // After the devices. The socket stays the caller's.
  void serve(const ServiceSocket& socket);

  // Takes no more clients, tells those that are there, stops the devices, hangs up; then calls `stopped` once, with what
  // hung (empty: nothing). Safe to call again.
  void stop(std::function<void(std::string stuck_on)> stopped);
  // Who uses what, into the log (SIGUSR1).
  void log_state() const;

  ServiceState& state() { return *state_; }
  const ServiceState& state() const { return *state_; }

 private:
  void accept(UniqueFd socket, PeerIdentity peer);
  void drop_mute(uid_t user);
  void hear(const PeerGone& gone);
  void hear(const PagerDecision& decision);
  void set_checkpoint_hooks();
  void log_dropped();
  std::string with_path(const std::string& subject) const;
  void hear(std::size_t device, const ConditionChanged& changed);
  void drop_lost(DeviceLink& device);
  void device_stopped(const PagerStopped& stopped);
  void finish_stop();

  boost::asio::io_context& context_;
  std::unique_ptr<ServiceState> state_;
  std::unique_ptr<Listener> listener_;
  std::function<void(std::string)> stopped_;
  std::string stuck_on_;
  boost::asio::steady_timer stop_timer_, tier_timer_;
  std::shared_ptr<HostTier> tier_;
  Nanoseconds openers_stop_by_{};
  std::uint32_t last_session_ = 0;
};

}  // namespace penstock
