// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/client/scripted_service.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"
#include "service/protocol/socket_io.hpp"

namespace penstock::test {
namespace {

constexpr auto bound = std::chrono::seconds(20);

bool readable(int fd, std::chrono::milliseconds within) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, static_cast<int>(within.count())) > 0;
}

}  // namespace

UniqueFd make_frame(std::uint8_t fill, bool writable) {
  UniqueFd frame = std::move(*create_memfd("frame", page_bytes));
  const Mapping content = *Mapping::shared(frame.get(), page_bytes, Access::read_write);
  std::memset(content.data(), fill, page_bytes);
  CHECK(add_seals(frame.get(), writable ? F_SEAL_SEAL : F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
  return frame;
}

SharedWords::SharedWords(std::uint32_t count)
    : fd(std::move(*create_memfd("words", std::max(count, 1u) * sizeof(std::uint64_t)))),
      mapping(std::move(
          *Mapping::shared(fd.get(), std::max(count, 1u) * sizeof(std::uint64_t), Access::read_write))) {}

std::uint64_t SharedWords::load(std::uint32_t at) const {
  return reinterpret_cast<const std::atomic<std::uint64_t>*>(mapping.data())[at].load();
}

void SharedWords::store(std::uint32_t at, std::uint64_t word) {
  reinterpret_cast<std::atomic<std::uint64_t>*>(mapping.data())[at].store(word);
}

std::optional<PeerMessage> ScriptedDevice::next_within(std::chrono::milliseconds within) {
  if (!readable(port_.fd(), within)) return std::nullopt;
  const auto datagram = port_.receive();
  if (!datagram || !*datagram) return std::nullopt;
  const auto* granted = std::get_if<PeerGranted>(&(*datagram)->message);
  const std::uint32_t batch = granted != nullptr ? granted->batch : (*datagram)->acknowledges;
  if (batch != 0) {
    EXPECT_TRUE(batch == batch_ && batch != acknowledged_) << "a batch is acknowledged once, by its number";
    acknowledged_ = batch;
  }
  return (*datagram)->message;
}

bool ScriptedDevice::hung_up() {
  const auto deadline = std::chrono::steady_clock::now() + bound;
  while (std::chrono::steady_clock::now() < deadline) {
    if (!readable(port_.fd(), bound)) return false;
    const auto message = port_.receive();
    if (!message) return message.error().code == Errc::closed;
  }
  return false;
}

void ScriptedDevice::grant(std::uint32_t table, std::uint32_t first, std::uint32_t count,
                           std::uint64_t generation, std::optional<std::uint64_t> completes, bool writable) {
  std::vector<UniqueFd> frames;
  std::vector<GrantedPage> pages;
  for (std::uint32_t i = 0; i < count; ++i) {
    frames.push_back(make_frame(static_cast<std::uint8_t>(first + i + 1), writable));
    pages.push_back({table, first + i, generation, writable, frames.back().get()});
  }
  grant(pages, completes);
}

void ScriptedDevice::grant(std::span<const GrantedPage> pages, std::optional<std::uint64_t> completes) {
  std::optional<PeerCompletion> completion;
  if (completes) completion = PeerCompletion{.request = *completes, .result = 0};
  EXPECT_TRUE(port_.send_grants(++batch_, pages, completion));
}

void ScriptedDevice::grant_filled(std::uint32_t table, std::uint32_t page, std::uint64_t generation,
                                  std::uint8_t fill, std::optional<std::uint64_t> completes, bool writable) {
  const UniqueFd frame = make_frame(fill, writable);
  const GrantedPage granted{table, page, generation, writable, frame.get()};
  grant(std::span(&granted, 1), completes);
}

void ScriptedDevice::revoke(std::uint32_t table, std::uint32_t page, std::uint64_t generation) {
  EXPECT_TRUE(port_.send_revoke(table, page, generation));
}

void ScriptedDevice::complete(std::uint64_t request, TicketResult result, FailureKind reason,
                              std::uint64_t released_bytes) {
  EXPECT_TRUE(port_.send_completion({.request = request,
                                     .result = static_cast<std::uint8_t>(result),
                                     .reason = reason,
                                     .released_bytes = released_bytes}));
}

ScriptedService::ScriptedService(std::string path)
    : path_(std::move(path)), stop_(std::move(*EventFd::create())), buffer_(PSTW_MESSAGE_BYTES_MAX) {
  listen();
}

ScriptedService::~ScriptedService() { die(); }

void ScriptedService::listen() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  CHECK(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(::listen(listener_.get(), 8) == 0);
  thread_ = std::thread([this] { serve(); });
}

void ScriptedService::die() {
  if (!thread_.joinable()) return;
  stop_.signal();
  thread_.join();
  stop_.consume();
  ::unlink(path_.c_str());
  listener_.reset();
  control_.reset();
  device_.reset();
  tables_.clear();
}

void ScriptedService::come_back() {
  requests_.clear();
  listen();
}

ScriptedDevice& ScriptedService::device() {
  std::unique_lock lock(mutex_);
  const bool came = changed_.wait_for(lock, bound, [&] { return device_ != nullptr; });
  EXPECT_TRUE(came);
  CHECK(came);
  return *device_;
}

ScriptedTable& ScriptedService::table(std::size_t n) {
  std::unique_lock lock(mutex_);
  const bool came = changed_.wait_for(lock, bound, [&] { return tables_.size() > n; });
  CHECK(came);
  return *tables_[n];
}

std::optional<std::pair<std::uint64_t, wire::ClientMessage>> ScriptedService::take(std::size_t type) {
  std::unique_lock lock(mutex_);
  std::optional<std::pair<std::uint64_t, wire::ClientMessage>> found;
  changed_.wait_for(lock, bound, [&] {
    const auto at = std::find_if(requests_.begin(), requests_.end(),
                                 [&](const auto& one) { return one.second.index() == type; });
    if (at == requests_.end()) return false;
    found = std::move(*at);
    requests_.erase(at);
    return true;
  });
  return found;
}

void ScriptedService::send(std::uint64_t request, const wire::ServiceMessage& message) {
  reply(request, message);
}

void ScriptedService::send_raw(std::span<const std::byte> bytes) {
  EXPECT_TRUE(send_message(control_.get(), bytes));
}

void ScriptedService::reply(std::uint64_t request, const wire::ServiceMessage& message,
                            std::span<const int> fds) {
  const auto bytes = wire::encode(request, message);
  CHECK(bytes);
  (void)send_message(control_.get(), *bytes, fds);
}

}  // namespace penstock::test
