// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/pressure/pressure_node.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

#include <boost/asio/post.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/core/simple_eviction.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint64_t minute = 60'000'000'000;

}  // namespace

PressureOptions short_recovery() {
  PressureOptions policy;
  policy.frames_max_bytes = frames * frame_bytes;
  policy.calm_after = {};
  policy.rise_time = std::chrono::milliseconds(1);
  policy.rise_step_bytes = frame_bytes;
  policy.pause_least = policy.pause_most = {};
  return policy;
}

Node::Node(const std::string& socket, HeadroomSource& room, const EventFd& alarm, KernelWatch* watch,
           const PressureOptions& policy) {
  auto opened = HostDevice::open(
      {.frame_bytes = frame_bytes, .capacity_bytes = frames * frame_bytes, .ready_pool_frames = 0}, room);
  CHECK(opened);
  device_ = std::make_shared<HostDevice>(std::move(*opened));
  // Frames made ahead would go first, without asking anybody: the slower way is measured.
  device_->owner().set_making_ahead(false);
  auto thread = DataplaneThread::start({.owner = std::shared_ptr<FrameOwner>(device_, &device_->owner()),
                                        .writer = std::shared_ptr<FrameWriter>(device_, &device_->writer())},
                                       std::make_unique<SimpleEviction>(), {});
  CHECK(thread);
  thread_ = *std::move(thread);
  if (watch != nullptr) service_.set_kernel_watch(*watch);
  service_.add_device({.description = {.id = "host", .kind = "host", .limits = device_->owner().limits()},
                       .mail = &thread_->mail(),
                       .news = &thread_->news(),
                       .stats = &thread_->stats()});
  service_.set_host_memory(room, 0);
  Governor::Options options;
  options.policy = policy;
  HostFrames host{.frame_bytes =
                      [this] {
                        const HostFrameStats all = device_->owner().stats();
                        return (all.alive + all.ready + all.in_the_making + all.dying) * frame_bytes;
                      },
                  .set_making_ahead = [](bool) {}};
  governor_.emplace(context_, service_.state(), room, alarm, std::vector{std::move(host)}, options);
  governor_->start();
  auto listening = ServiceSocket::listen({.path = socket, .group = ""});
  CHECK(listening);
  socket_.emplace(std::move(*listening));
  service_.serve(*socket_);
  loop_ = std::thread([this] { context_.run(); });
}

Node::~Node() {
  boost::asio::post(context_, [this] { service_.stop([this](const std::string&) { context_.stop(); }); });
  loop_.join();
}

void check(pst_status status) {
  if (status != PST_DONE) std::fprintf(stderr, "%s\n", pst_status_name(status));
  CHECK(status == PST_DONE);
}

MappingClient::MappingClient(const std::string& socket, const std::string& file) {
  pst_connect_options options{};
  options.size = sizeof options;
  options.socket = socket.c_str();
  pst_checkpoint* checkpoint = nullptr;
  check(pst_connect(&options, &client_));
  check(pst_open(client_, file.c_str(), &checkpoint));
  check(pst_table_open(checkpoint, nullptr, &table_));
}

MappingClient::~MappingClient() { pst_disconnect(client_); }

void MappingClient::open_too(const std::string& file) {
  pst_checkpoint* checkpoint = nullptr;
  check(pst_open(client_, file.c_str(), &checkpoint));
}

void MappingClient::map_all() {
  check(pst_fault(table_, 0, file_bytes, minute));
  check(pst_unpin(table_, 0, file_bytes, nullptr));
}

double quantile(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<std::size_t>(std::ceil(part * static_cast<double>(sorted.size()))) - 1];
}

}  // namespace penstock::bench
