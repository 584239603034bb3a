// SPDX-License-Identifier: Apache-2.0
// Session: admission, host buffers, and giving memory back.
#include <algorithm>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <boost/asio/steady_timer.hpp>

#include "service/control/session.hpp"

namespace penstock {
namespace {

// One PSTW_FREE that goes on over several tables: answered once, when enough is freed, nothing is left, or time is up.
struct Freeing {
  explicit Freeing(boost::asio::io_context& context) : timer(context) {}
  std::vector<std::shared_ptr<SharedTable>> tables;
  std::uint64_t wanted_bytes = 0, freed_bytes = 0;
  std::function<void(std::uint64_t)> answer;  // Empty once given.
  boost::asio::steady_timer timer;

  void finish() {
    timer.cancel();
    if (answer) std::exchange(answer, nullptr)(freed_bytes);
  }
};

void free_next(const std::shared_ptr<Freeing>& freeing) {
  if (!freeing->answer) return;
  if (freeing->tables.empty() || freeing->freed_bytes >= freeing->wanted_bytes) return freeing->finish();
  const auto table = freeing->tables.back();
  freeing->tables.pop_back();
  table->device->ask(mail::EvictTable{.request = {},
                                      .any_table = false,
                                      .table = table->id,
                                      .bytes = freeing->wanted_bytes - freeing->freed_bytes},
                     [freeing, table](const RequestDone& done) {
                       freeing->freed_bytes += done.bytes;
                       free_next(freeing);
                     });
}

}  // namespace

Nanoseconds deadline_after(std::uint64_t timeout_ns) {
  constexpr std::uint64_t far = 365ull * 24 * 3600 * 1'000'000'000;
  return monotonic_now() + Nanoseconds(static_cast<std::int64_t>(std::min(timeout_ns, far)));
}

void Session::on(std::uint64_t request, wire::Admit&& admit, UniqueFds&&) {
  const auto device = device_at(admit.device);
  if (!device) return refuse(request, device.error());
  service_.admissions[admit.device]->ask(
      id_, request,
      {.demand = {},
       .session = id_,
       .weights_bytes = admit.weights_bytes,
       .work_bytes = admit.work_bytes,
       .minimum_work_bytes = admit.minimum_work_bytes,
       .deadline = deadline_after(admit.timeout_ns)},
      [self = shared_from_this(), request, index = admit.device](Outcome<AdmissionDesk::Granted> granted) {
        if (!granted) return self->refuse(request, granted.error());
        self->answer(request,
                     wire::AdmitReply{.grant = granted->grant << 4 | index,  // Names its device, too.
                                      .work_bytes = granted->work_bytes,
                                      .waited_ns = static_cast<std::uint64_t>(granted->waited.count())});
      });
}

void Session::on(std::uint64_t request, wire::ReleaseGrant&& release, UniqueFds&&) {
  static_assert(PSTW_DEVICES_MAX <= 16, "four bits of a grant name its device");
  const auto device = device_at(static_cast<std::uint32_t>(release.grant & 15));
  if (!device) {
    return refuse(request, {FailureKind::not_found, fmt::format("there is no grant {}", release.grant), ""});
  }
  const auto released = service_.admissions[release.grant & 15]->release(id_, release.grant >> 4);
  if (!released) return refuse(request, released.error());
  answer(request, wire::Done{});
}

void Session::on(std::uint64_t request, wire::CreateBuffer&& create, UniqueFds&&) {
  if (create.bytes == 0 || create.bytes > std::numeric_limits<std::int64_t>::max()) {
    return refuse(request, {FailureKind::invalid_argument,
                            fmt::format("a buffer can't have {} bytes", create.bytes), ""});
  }
  service_.host_buffers->create(
      id_, create.bytes,
      [self = shared_from_this(), request,
       bytes = create.bytes](Outcome<std::shared_ptr<HostBuffers::Made>> made) {
        if (!self->alive()) return;
        if (!made) return self->refuse(request, made.error());
        std::vector<UniqueFd> fds;
        fds.push_back(std::move((*made)->fd));
        self->answer(request, wire::BufferReply{.buffer = (*made)->buffer, .bytes = bytes}, std::move(fds));
      });
}

void Session::on(std::uint64_t request, wire::TruncateBuffer&& truncate, UniqueFds&&) {
  const auto done = service_.host_buffers->truncate(id_, truncate.buffer, truncate.bytes);
  if (!done) return refuse(request, done.error());
  answer(request, wire::Done{});
}

void Session::on(std::uint64_t request, wire::FreeBuffer&& free, UniqueFds&&) {
  const auto done = service_.host_buffers->free(id_, free.buffer);
  if (!done) return refuse(request, done.error());
  answer(request, wire::Done{});
}

void Session::on(std::uint64_t request, wire::Free&& free, UniqueFds&&) {
  const auto device = device_at(free.device);
  if (!device) return refuse(request, device.error());
  const auto freeing = std::make_shared<Freeing>(service_.context);
  freeing->wanted_bytes = free.bytes;
  for (const auto& [number, open] : tables_) {
    // Pages of a table that others use, too, are theirs as well.
    if (open.table->device == *device && open.table->attached == 1 &&
        open.table->kind != TableKind::anonymous) {
      freeing->tables.push_back(open.table);
    }
  }
  freeing->answer = [self = shared_from_this(), request](std::uint64_t freed) {
    self->answer(request, wire::FreeReply{.freed_bytes = freed});
  };
  freeing->timer.expires_at(std::chrono::steady_clock::time_point(deadline_after(free.timeout_ns)));
  freeing->timer.async_wait([freeing](const boost::system::error_code& error) {
    if (!error) freeing->finish();
  });
  free_next(freeing);
}

void Session::on(std::uint64_t request, wire::BookCopy&& book, UniqueFds&&) {
  const auto booked = service_.copies.book(
      id_, {.gpu = book.gpu, .copy = book.copy, .bytes = book.bytes, .exists = book.exists});
  if (!booked) {
    service_.decide("refuse", fmt::format("client {}", raw(id_)), book.bytes,
                    failure_kind_name(booked.error().kind), {});
    return refuse(request, booked.error());
  }
  answer(request, wire::Done{});
}

void Session::on(std::uint64_t request, wire::Report&& report, UniqueFds&&) {
  for (const wire::Holding& holding : report.holdings) {
    const auto device = holding.device ? device_at(*holding.device) : Outcome<DeviceLink*>(nullptr);
    if (!device) return refuse(request, device.error());
  }
  reported_ = {std::move(report.holdings), monotonic_now()};
  answer(request, wire::Done{});
}

}  // namespace penstock
