// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/pager/fault_client.hpp"

#include <array>
#include <chrono>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"
#include "service/protocol/socket_io.hpp"

namespace penstock::bench {
namespace {

double microseconds(Nanoseconds span) { return std::chrono::duration<double, std::micro>(span).count(); }

void rest(Nanoseconds pause) {
  if (pause == Nanoseconds{0}) return;
  const timespec length{.tv_sec = 0, .tv_nsec = pause.count()};
  static_cast<void>(::ppoll(nullptr, 0, &length, nullptr));
}

}  // namespace

FaultClient::FaultClient(UniqueFd device, UniqueFd echo, std::uint32_t pages, std::uint64_t page_bytes)
    : device_(std::move(device)), echo_(std::move(echo)), pages_(pages), page_bytes_(page_bytes) {
  Result<Mapping> range = Mapping::reserve(pages_ * page_bytes_);
  CHECK(range);
  range_ = *std::move(range);
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  CHECK(epoll_);
  const Result<SocketWatch> watch = SocketWatch::add(epoll_.get(), device_.get(), 0);
  CHECK(watch);
  watch_ = *watch;
  watch_.arm(EPOLLIN);
}

void FaultClient::send(const PeerMessage& message) {
  const pstw_device_message wire = wire::to_wire(message, std::exchange(owed_, 0));
  CHECK(send_message(device_.get(), std::as_bytes(std::span(&wire, 1)), {}, Wait::yes));
}

wire::GrantBatch FaultClient::receive_grant() {
  linger_.begin(monotonic_now());
  watch_.arm(0);
  Result<std::size_t> length = Error{Errc::busy, 0, "recvmsg"};
  while (!length && yield_once(linger_)) length = receive_message(device_.get(), buffer_, fds_);
  if (!length) length = receive_message(device_.get(), buffer_, fds_, Wait::yes);
  CHECK(length);
  const auto message = wire::decode_device_message(std::span(buffer_).first(*length), fds_.size());
  CHECK(message && std::holds_alternative<wire::GrantBatch>(*message));
  return std::get<wire::GrantBatch>(*message);
}

FaultTimes FaultClient::faults(std::uint32_t count, Nanoseconds pause) {
  FaultTimes times;
  for (std::uint32_t fault = 0; fault < count; ++fault) {
    rest(pause);
    const std::uint32_t page = fault % pages_;
    const Nanoseconds start = monotonic_now();
    send(PeerFault{.request = ++request_, .table = 1, .first = page, .count = 1});
    const wire::GrantBatch batch = receive_grant();
    const Nanoseconds granted = monotonic_now();
    CHECK(batch.size() == 1 && batch[0].page == page && batch.completes());
    CHECK(range_.place(page * page_bytes_, fds_[0], page_bytes_, Access::read));
    const Nanoseconds mapped = monotonic_now();
    owed_ = batch.batch();
    fds_.clear();
    watch_.arm(EPOLLIN);
    const Nanoseconds done = monotonic_now();
    times.granted.push_back(microseconds(granted - start));
    times.mapped.push_back(microseconds(mapped - start));
    times.done.push_back(microseconds(done - start));
    CHECK(range_.unplace(page * page_bytes_, page_bytes_));
    send(PeerRelease{
        .request = 0, .table = 1, .page = page, .generation = batch[0].generation, .drop_if_last = false});
  }
  return times;
}

std::vector<double> FaultClient::echoes(std::uint32_t count, Nanoseconds pause) {
  std::vector<double> times;
  std::array<std::byte, sizeof(pstw_device_message)> message{};
  for (std::uint32_t round = 0; round < count; ++round) {
    rest(pause);
    const Nanoseconds start = monotonic_now();
    CHECK(send_message(echo_.get(), message, {}, Wait::yes));
    CHECK(receive_plain_message(echo_.get(), message, Wait::yes));
    times.push_back(microseconds(monotonic_now() - start));
  }
  return times;
}

void echo(int fd) {
  std::array<std::byte, 256> message;
  for (;;) {
    const Result<std::size_t> length = receive_plain_message(fd, message, Wait::yes);
    if (!length || !send_message(fd, std::span(message).first(*length), {}, Wait::yes)) return;
  }
}

}  // namespace penstock::bench
