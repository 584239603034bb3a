// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "service/client/api/handles.hpp"

namespace penstock {
namespace {

static_assert(int{PST_HOLDING_OTHER} == int{PSTW_HOLDING_OTHER});
static_assert(int{PST_PLACE_DISK} == int{PSTW_PLACE_DISK});

Outcome<wire::Holding> holding_of(Client& client, const pst_holding& given) {
  if (given.kind > PST_HOLDING_OTHER || given.place > PST_PLACE_DISK || given.reserved != 0) {
    return fail(FailureKind::invalid_argument,
                fmt::format("a holding of kind {} in place {}", given.kind, given.place));
  }
  wire::Holding holding{.kind = static_cast<wire::HoldingKind>(given.kind),
                        .place = static_cast<wire::HoldingPlace>(given.place),
                        .device = std::nullopt,
                        .bytes = given.bytes};
  if (holding.place != wire::HoldingPlace::device) {
    if (given.device == nullptr) return holding;
    return fail(FailureKind::invalid_argument, "a holding names a device, and its place is no device's");
  }
  const auto device = client.device(given.device);
  if (!device) return tl::unexpected(device.error());
  holding.device = device->index;
  return holding;
}

// Entries of a newer caller are longer than ours.
Outcome<wire::Report> report_of(Client& client, const pst_holding* holdings, std::uint32_t count) {
  wire::Report report;
  report.holdings.reserve(count);
  const auto* at = reinterpret_cast<const std::byte*>(holdings);
  for (std::uint32_t i = 0; i < count; ++i, at += holdings->size) {
    const auto* const given = reinterpret_cast<const pst_holding*>(at);
    if (given->size < sizeof(pst_holding) || given->size % alignof(pst_holding) != 0 ||
        given->size != holdings->size) {
      return fail(FailureKind::invalid_argument, fmt::format("holdings of {} bytes", given->size));
    }
    auto holding = holding_of(client, *given);
    if (!holding) return tl::unexpected(std::move(holding.error()));
    report.holdings.push_back(*holding);
  }
  std::ranges::sort(report.holdings, {}, &wire::Holding::key);
  const auto twice =
      std::ranges::adjacent_find(report.holdings, std::ranges::equal_to{}, &wire::Holding::key);
  if (twice != report.holdings.end())
    return fail(FailureKind::invalid_argument, "two holdings of one kind in one place");
  return report;
}

}  // namespace
}  // namespace penstock

using namespace penstock;

pst_status pst_report_holdings(pst_client* client, const pst_holding* holdings, uint32_t count,
                               uint64_t timeout_ns) {
  if (const pst_status status = check_handle(client, holdings != nullptr || count == 0); status != PST_DONE)
    return status;
  if (count > PSTW_HOLDINGS_MAX) return report_invalid(client, "too many holdings");
  // Devices are numbers of one connection.
  const auto epoch = client->client->connected(deadline_after(timeout_ns));
  if (!epoch) return report(client, epoch.error());
  const auto message = report_of(*client->client, holdings, count);
  if (!message) return report(client, message.error());
  const auto patience =
      Nanoseconds(static_cast<std::int64_t>(std::min<std::uint64_t>(timeout_ns, INT64_MAX)));
  const auto reply =
      client->client->ask_on<wire::Done>(*epoch, *message, timeout_ns == PST_FOREVER ? never : patience);
  return reply ? PST_DONE : report(client, reply.error());
}
