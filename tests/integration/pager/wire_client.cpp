// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/pager/wire_client.hpp"

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"
#include "service/protocol/socket_io.hpp"
#include "tests/support/drive_reader.hpp"

namespace penstock::test {
namespace {

constexpr int bound_ms = 20'000;

}  // namespace

void WireClient::send(const PeerMessage& message) {
  const pstw_device_message wire = wire::to_wire(message);
  const Result<> sent = send_message(socket_.get(), std::as_bytes(std::span(&wire, 1)), {}, Wait::yes);
  CHECK(sent || sent.error().code == Errc::closed);
}

std::uint64_t WireClient::start_fault(std::uint32_t table, std::uint32_t first, std::uint32_t count) {
  send(PeerFault{.request = ++last_request_, .table = table, .first = first, .count = count});
  return last_request_;
}

PeerCompletion WireClient::fault(std::uint32_t table, std::uint32_t first, std::uint32_t count) {
  return wait_for(start_fault(table, first, count));
}

std::uint64_t WireClient::start_make_private(std::uint32_t table, std::uint32_t first, std::uint32_t count) {
  send(PeerMakePrivate{.request = ++last_request_, .table = table, .first = first, .count = count});
  return last_request_;
}

PeerCompletion WireClient::make_private(std::uint32_t table, std::uint32_t first, std::uint32_t count) {
  start_make_private(table, first, count);
  return wait_for(last_request_);
}

PeerCompletion WireClient::wait_for(std::uint64_t request) {
  while (!completions_.contains(request)) CHECK(receive(bound_ms));
  return completions_.extract(request).mapped();
}

bool WireClient::serve(int milliseconds) {
  while (wait_readable(socket_.get(), milliseconds)) {
    if (!receive(0)) return false;
  }
  return true;
}

// False at a hang-up, or when nothing came.
bool WireClient::receive(int milliseconds) {
  if (milliseconds > 0 && !wait_readable(socket_.get(), milliseconds)) return false;
  const Result<std::size_t> length = receive_message(socket_.get(), buffer_, fds_);
  if (!length) return length.error().code == Errc::busy;
  const auto message = wire::decode_device_message(std::span(buffer_).first(*length), fds_.size());
  CHECK(message);
  if (const auto* batch = std::get_if<wire::GrantBatch>(&*message)) take(*batch);
  if (const auto* page = std::get_if<wire::RevokePage>(&*message)) take(*page);
  if (const auto* done = std::get_if<PeerCompletion>(&*message)) completions_[done->request] = *done;
  if (std::holds_alternative<wire::DeviceClosing>(*message)) closing = true;
  return true;
}

void WireClient::take(const wire::GrantBatch& batch) {
  for (std::size_t index = 0; index < batch.size(); ++index) {
    const wire::GrantEntry entry = batch[index];
    auto memory =
        Mapping::shared(fds_[index], page_bytes_, entry.writable ? Access::read_write : Access::read);
    CHECK(memory && !has(entry.table, entry.page));
    const Result<int> seals = seals_of(fds_[index]);
    last_descriptor_seals = seals ? std::optional(*seals) : std::nullopt;
    pages_[{entry.table, entry.page}] =
        Mapped{.memory = *std::move(memory), .generation = entry.generation, .writable = entry.writable};
  }
  fds_.clear();
  if (batch.completes()) completions_[batch.completes()->request] = *batch.completes();
  send(PeerGranted{batch.batch()});
}

void WireClient::take(const wire::RevokePage& page) {
  ++revokes;
  const auto found = pages_.find({page.table, page.page});
  if (found == pages_.end() || found->second.generation != page.generation) return;
  if (found->second.pinned) {
    ++busy;
    found->second.wanted = true;
    return send(
        PeerBusy{.table = page.table, .page = page.page, .generation = page.generation, .later = false});
  }
  pages_.erase(found);
  send(PeerAcked{.table = page.table, .page = page.page, .generation = page.generation});
}

void WireClient::unpin(std::uint32_t table, std::uint32_t page) {
  Mapped& mapped = at(table, page);
  mapped.pinned = false;
  if (std::exchange(mapped.wanted, false)) send(PeerIdle{.table = table, .page = page});
}

void WireClient::release(std::uint32_t table, std::uint32_t page, bool drop_if_last) {
  const std::uint64_t generation = at(table, page).generation;
  pages_.erase({table, page});
  send(PeerRelease{
      .request = 0, .table = table, .page = page, .generation = generation, .drop_if_last = drop_if_last});
}

}  // namespace penstock::test
