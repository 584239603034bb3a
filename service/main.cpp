// SPDX-License-Identifier: Apache-2.0
// penstockd: the composition root. The only file that names concrete classes.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "bpf/cgroup_headroom.hpp"
#include "dataplane/base/resource_limits.hpp"
#include "dataplane/base/version.hpp"
#include "dataplane/writer/writer_process.hpp"
#include "service/config/load.hpp"
#include "service/control/service.hpp"
#include "service/control/watchdog.hpp"
#include "service/gpu_setup.hpp"
#include "service/gpu_usage.hpp"
#include "service/host_setup.hpp"
#include "service/hung_files.hpp"
#include "service/ipc/service_socket.hpp"
#include "service/kernel_setup.hpp"
#include "service/log.hpp"
#include "service/metrics_setup.hpp"
#include "service/options.hpp"
#include "service/self_protection.hpp"
#include "service/stop_guard.hpp"

namespace penstock {
namespace {

enum ExitCode { exit_clean = 0, exit_failed = 1, exit_configuration = 2 };
// What a stop may take before the process ends by force; the unit's TimeoutStopSec= is longer.
constexpr auto stop_limit = std::chrono::seconds(4);
// Of that, what the end of the devices may take: their drivers may hang.
constexpr auto devices_limit = std::chrono::milliseconds(3'500);

constexpr auto warnings_period = std::chrono::seconds(10);

int report(const Failure& failure, int code) {
  spdlog::error("{}{}{}", failure.message, failure.hint.empty() ? "" : ": ", failure.hint);
  return code;
}

Outcome<ServiceSocket> make_socket(const Config& config) {
  if (::sd_listen_fds(1) > 0) return ServiceSocket::adopt(UniqueFd(SD_LISTEN_FDS_START));
  return ServiceSocket::listen({.path = config.service.socket, .group = config.service.socket_group});
}

// Everything that runs between the start and the end of the event loop.
class Daemon {
 public:
  explicit Daemon(LoadedConfig loaded, ConfigLocation location)
      : location_(std::move(location)),
        config_(std::move(loaded.config)),
        signals_(context_),
        stop_timer_(context_),
        warnings_timer_(context_) {}

  Outcome<void> start();
  int run();

 private:
  Outcome<void> start_devices(std::uint64_t descriptors, std::uint64_t locked_bytes);
  void start_governor();
  void start_watchdog();
  void wait_for_signal();
  void log_warnings();
  void reload();
  void stop(int signal);

  ConfigLocation location_;
  Config config_;
  boost::asio::io_context context_{1};
  boost::asio::signal_set signals_;
  boost::asio::steady_timer stop_timer_, warnings_timer_;
  std::unique_ptr<CgroupHeadroom> headroom_;
  std::optional<EventFd> alarm_;  // Raised by the watch, which may hang and be left behind.
  std::unique_ptr<KernelWatch> kernel_;
  std::unique_ptr<Metrics> metrics_;
  std::shared_ptr<HostTier> tier_;
  std::vector<DeviceSetup> devices_;
  std::unique_ptr<ServiceSocket> socket_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<UsageFeed> usage_;  // Feeds the service.
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<Governor> governor_;  // Acts on it.
  std::vector<WatchedDriver> drivers_;  // Of devices_; they may outlive those.
  std::chrono::steady_clock::time_point stop_began_{};
  int exit_code_ = exit_clean;
};

Outcome<void> Daemon::start() {
  // Before any thread, so that all inherit it. A client that is gone answers EPIPE, not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  boost::system::error_code ignored;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) signals_.add(signal, ignored);
  wait_for_signal();

  const std::uint64_t open_files = raise_open_files_limit().value_or(1024);
  auto headroom = CgroupHeadroom::open();
  if (!headroom) return tl::unexpected(headroom.error());
  headroom_ = std::move(*headroom);
  log_warnings();

  auto alarm = EventFd::create();
  if (!alarm) return fail(FailureKind::fd_limit, "no descriptor for the alarm", "raise LimitNOFILE=");
  alarm_ = std::move(*alarm);
  auto kernel = start_kernel_watch(config_, open_files, *alarm_);
  if (!kernel) return tl::unexpected(kernel.error());
  kernel_ = std::move(*kernel);

  service_ = std::make_unique<Service>(context_, config_);
  service_->set_kernel_watch(*kernel_);
  // Before the clients' socket, so that a taken port is told at once and nobody has connected yet.
  auto metrics = Metrics::open(context_, config_.metrics, *service_);
  if (!metrics) return tl::unexpected(metrics.error());
  metrics_ = std::move(*metrics);

  const std::uint64_t locked_bytes = locked_budget(config_, *headroom_);
  auto devices = start_devices(open_files, locked_bytes);
  if (!devices) return devices;
  service_->set_host_memory(*headroom_, locked_bytes);
  if (tier_) service_->set_host_tier(tier_);
  if (tier_) metrics_->set_tier(tier_);
  start_governor();

  auto socket = make_socket(config_);
  if (!socket) return tl::unexpected(socket.error());
  socket_ = std::make_unique<ServiceSocket>(std::move(*socket));
  if (!socket_->warning().empty()) spdlog::warn("{}", socket_->warning());
  service_->serve(*socket_);
  // All threads and libraries are there now.
  service_->set_protection(protect_from_pressure());
  start_watchdog();
  metrics_->set_ready(true);
  return {};
}

// GPUs first: clients that name no device get the first one.
Outcome<void> Daemon::start_devices(std::uint64_t descriptors, std::uint64_t locked_bytes) {
  tier_ = make_host_tier(locked_bytes, *headroom_, descriptors);
  GpuDevices gpus = start_gpu_devices(config_, descriptors, tier_);
  for (const CopyLedger::Gpu& gpu : gpus.unshared) service_->state().copies.add(gpu);
  devices_ = std::move(gpus.devices);
  if (std::ranges::none_of(devices_, [](const DeviceSetup& one) { return one.tier != nullptr; }))
    tier_.reset();
  if (config_.host.enabled == DeviceUse::on ||
      (config_.host.enabled == DeviceUse::automatic && (devices_.empty() || !gpus.unshared.empty()))) {
    auto host = start_host_device(config_, *headroom_, descriptors);
    if (!host) return tl::unexpected(host.error());
    devices_.push_back(std::move(*host));
  }
  for (const auto& [kind, wanted] : {std::pair("cuda", &config_.cuda), std::pair("hip", &config_.hip)}) {
    // Named anew: clang 14 takes no structured binding into a lambda.
    const std::string_view name = kind;
    const bool found =
        std::ranges::any_of(devices_, [name](const DeviceSetup& one) { return one.kind == name; });
    if (wanted->enabled != DeviceUse::on || found) continue;
    return fail(FailureKind::configuration,
                fmt::format("device.{}.enabled is \"on\", and no such GPU can be used", name),
                "penstock doctor says what the GPUs lack; \"auto\" goes on without them");
  }
  if (devices_.empty()) {
    return fail(FailureKind::configuration,
                "no device: no GPU can be used and device.host.enabled is \"off\"",
                "penstock doctor says what the GPUs lack");
  }
  service_->state().reader = devices_.front().thread->reader();
  for (const DeviceSetup& device : devices_) {
    if (device.driver_call) drivers_.push_back({.device = device.id, .call = device.driver_call});
    service_->add_device({.description = {.id = device.id, .kind = device.kind, .limits = device.limits},
                          .mail = &device.thread->mail(),
                          .news = &device.thread->news(),
                          .stats = &device.thread->stats(),
                          .headroom_bytes = device.headroom_bytes,
                          .frames_max = device.frames_max});
    metrics_->add_device(device.id, device.thread->stats(), *service_, device.usage.has_value());
  }
  usage_ = std::make_unique<UsageFeed>(context_, service_->state(), watch_usage(devices_));
  usage_->start();
  return {};
}

void Daemon::start_governor() {
  Governor::Options options;
  options.policy.buffers_max_bytes = service_->state().host_buffers->budget_bytes();
  if (tier_) options.policy.copies_max_bytes = options.policy.buffers_max_bytes;
  std::vector<HostFrames> frames;
  for (std::size_t at = 0; at < devices_.size(); ++at) {
    if (!devices_[at].host_frames) continue;
    frames.push_back(*devices_[at].host_frames);
    frames.back().position = at;
  }
  governor_ = std::make_unique<Governor>(context_, service_->state(), *headroom_, *alarm_, std::move(frames),
                                         options);
  governor_->start();
}

void Daemon::start_watchdog() {
  std::uint64_t microseconds = 0;
  // It stays in the environment: WATCHDOG_PID says that this process alone is asked.
  if (::sd_watchdog_enabled(0, &microseconds) <= 0) return;
  watchdog_ = std::make_unique<Watchdog>(
      context_, service_->state(), std::chrono::microseconds(static_cast<std::int64_t>(microseconds) / 4),
      [] { ::sd_notify(0, "WATCHDOG=1"); });
  watchdog_->start();
}

int Daemon::run() {
  ::sd_notifyf(0, "READY=1\nSTATUS=serving %s", config_.service.socket.c_str());
  spdlog::info("ready: penstockd {} serves {}", project_version, config_.service.socket);
  context_.run();
  if (stop_began_ == std::chrono::steady_clock::time_point{}) stop_began_ = std::chrono::steady_clock::now();
  // A device waits for its driver when it goes.
  auto guard = std::make_unique<StopGuard>(stop_began_ + devices_limit, drivers_, exit_failed);
  // In this order: no client may reach a service whose devices are gone.
  socket_.reset();
  metrics_.reset();
  watchdog_.reset();
  governor_.reset();
  usage_.reset();
  service_.reset();
  devices_.clear();
  guard.reset();
  if (log_hung_calls(drivers_)) exit_code_ = exit_failed;
  if (const std::string stuck_on = kernel_->stop(std::chrono::seconds(1)); !stuck_on.empty()) {
    spdlog::error("stopped, but this did not answer: {}", stuck_on);
    exit_past_hung_files(exit_failed);
  }
  if (exit_code_ == exit_clean) spdlog::info("stopped");
  return exit_code_;
}

void Daemon::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    if (signal == SIGHUP)
      reload();
    else if (signal == SIGUSR1)
      service_->log_state();
    else
      stop(signal);
    wait_for_signal();
  });
}

// What the cgroup's files have come to lack, said once each.
void Daemon::log_warnings() {
  for (const std::string& warning : headroom_->warnings()) spdlog::warn("{}", warning);
  if (kernel_) {
    for (const std::string& warning : kernel_->warnings()) spdlog::warn("{}", warning);
  }
  warnings_timer_.expires_after(warnings_period);
  warnings_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) log_warnings();
  });
}

void Daemon::reload() {
  const auto fresh = load_config(location_);
  if (!fresh) {
    for (const ConfigProblem& problem : fresh.error()) spdlog::error("{}", to_text(problem));
    spdlog::error("the configuration was not reloaded; the old one stays");
    return;
  }
  for (const ConfigChange& change : config_changes(config_, fresh->config)) {
    spdlog::info("{}: {} -> {}{}", change.key, change.before, change.after,
                 change.at_once ? "" : " at the next start");
  }
  config_.log.level = fresh->config.log.level;
  set_log_level(config_.log.level);
}

void Daemon::stop(int signal) {
  if (!service_ || service_->state().closing) return;
  spdlog::info("stopping: signal {}", signal);
  ::sd_notify(0, "STOPPING=1");
  stop_began_ = std::chrono::steady_clock::now();
  if (metrics_) metrics_->set_ready(false);
  socket_.reset();
  stop_timer_.expires_after(stop_limit);
  stop_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    log_hung_calls(drivers_);
    spdlog::error("the stop took too long and was cut short");
    exit_past_hung_files(exit_failed);
  });
  service_->stop([this](const std::string& stuck_on) {
    if (!stuck_on.empty()) {
      // Threads that the kernel holds can't be joined: the process ends around them.
      spdlog::error("stopped, but this did not answer: {}", stuck_on);
      exit_past_hung_files(exit_failed);
    }
    stop_timer_.cancel();
    context_.stop();
  });
}

int serve(const Options& options) {
  auto loaded = load_config(options.config);
  if (!loaded) {
    for (const ConfigProblem& problem : loaded.error()) fmt::print(stderr, "{}\n", to_text(problem));
    return exit_configuration;
  }
  if (options.what == Options::Do::check_config) return exit_clean;
  if (options.what == Options::Do::print_config) {
    fmt::print("{}", print_config(loaded->config));
    return exit_clean;
  }
  start_log(loaded->config.log);
  Daemon daemon(std::move(*loaded), options.config);
  if (auto started = daemon.start(); !started) {
    return report(started.error(),
                  started.error().kind == FailureKind::configuration ? exit_configuration : exit_failed);
  }
  return daemon.run();
}

}  // namespace
}  // namespace penstock

int main(int count, char** words) {
  using namespace penstock;
  const auto options = parse_options(count, words);
  if (!options) {
    fmt::print(stderr, "penstockd: {}\n{}\n", options.error().message, options.error().hint);
    return exit_configuration;
  }
  if (options->what == Options::Do::help) {
    fmt::print("{}", options_help());
    return exit_clean;
  }
  if (options->what == Options::Do::version) {
    fmt::print("penstockd {}\n", project_version);
    return exit_clean;
  }
  keep_out_of_mps();
  return serve(*options);
}
