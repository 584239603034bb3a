// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "dataplane/base/units.hpp"
#include "service/client/api/handles.hpp"
#include "service/client/fork_gate.hpp"

using namespace penstock;

namespace {

// For requests that the service answers without waiting for anybody.
constexpr Nanoseconds patience = std::chrono::seconds(60);

}  // namespace

pst_status pst_admit(pst_client* client, const pst_demand* demand, pst_grant** grant) {
  if (const pst_status status = check_handle(client, demand != nullptr && grant != nullptr);
      status != PST_DONE)
    return status;
  *grant = nullptr;
  const pst_demand wanted = copy_in(demand);
  if (wanted.minimum_work_bytes > wanted.work_bytes)
    return report_invalid(client, "minimum_work_bytes is above work_bytes");
  const auto epoch = client->client->connected(deadline_after(wanted.timeout_ns));
  if (!epoch) return report(client, epoch.error());
  const auto device = client->client->device(wanted.device);
  if (!device) return report(client, device.error());
  const wire::Admit message{.device = device->index,
                            .weights_bytes = wanted.weights_bytes,
                            .work_bytes = wanted.work_bytes,
                            .minimum_work_bytes = wanted.minimum_work_bytes,
                            .timeout_ns = wanted.timeout_ns};
  const auto reply =
      client->client->ask_on<wire::AdmitReply>(*epoch, message, patience_for(wanted.timeout_ns));
  if (!reply) return report(client, reply.error());
  const auto& told = std::get<wire::AdmitReply>(reply->message);
  *grant =
      client->grants.add(std::make_unique<pst_grant>(pst_grant{client, *epoch, told.grant, told.work_bytes}));
  return PST_DONE;
}

uint64_t pst_grant_work_bytes(const pst_grant* grant) {
  return check_handle(owner_of(grant)) == PST_DONE ? grant->work_bytes : 0;
}

void pst_grant_release(pst_grant* grant) {
  if (check_handle(owner_of(grant)) != PST_DONE) return;
  pst_client* const owner = grant->owner;
  if (const auto handle = owner->grants.take(grant)) {
    owner->client->post_on(handle->epoch, wire::ReleaseGrant{handle->number});
  }
}

pst_status pst_free(pst_client* client, const char* device, uint64_t bytes, uint64_t timeout_ns,
                    uint64_t* freed) {
  if (const pst_status status = check_handle(client, freed != nullptr); status != PST_DONE) return status;
  *freed = 0;
  const auto done = client->client->free(device, bytes, deadline_after(timeout_ns));
  if (!done) return report(client, done.error());
  *freed = *done;
  return PST_DONE;
}

pst_status pst_host_buffer_create(pst_client* client, uint64_t bytes, pst_host_buffer** buffer) {
  if (const pst_status status = check_handle(client, buffer != nullptr); status != PST_DONE) return status;
  *buffer = nullptr;
  const auto epoch = client->client->connected(monotonic_now() + patience);
  if (!epoch) return report(client, epoch.error());
  const auto reply = client->client->ask_on<wire::BufferReply>(*epoch, wire::CreateBuffer{bytes}, patience);
  if (!reply) return report(client, reply.error());
  const auto& told = std::get<wire::BufferReply>(reply->message);
  auto mapping = map_for_this_process(reply->fds[0], bytes, Access::read_write);
  if (!mapping) {
    client->client->post_on(*epoch, wire::FreeBuffer{told.buffer});
    return report(client, to_failure(mapping.error(), "the host buffer can't be mapped"));
  }
  *buffer = client->buffers.add(std::make_unique<pst_host_buffer>(
      pst_host_buffer{client, *epoch, told.buffer, bytes, std::move(*mapping)}));
  return PST_DONE;
}

void* pst_host_buffer_address(const pst_host_buffer* buffer) {
  return check_handle(owner_of(buffer)) == PST_DONE ? buffer->mapping.data() : nullptr;
}

uint64_t pst_host_buffer_bytes(const pst_host_buffer* buffer) {
  return check_handle(owner_of(buffer)) == PST_DONE ? buffer->bytes : 0;
}

pst_status pst_host_buffer_truncate(pst_host_buffer* buffer, uint64_t bytes) {
  if (const pst_status status = check_handle(owner_of(buffer)); status != PST_DONE) return status;
  pst_client* const owner = buffer->owner;
  if (bytes > buffer->bytes) {
    return report(
        owner,
        Failure{FailureKind::invalid_argument,
                fmt::format("the buffer has {} bytes and can't grow to {}", buffer->bytes, bytes), ""});
  }
  // First here: what the service takes back must not be touched any more.
  const std::uint64_t kept = round_up(bytes, small_page_bytes);
  const std::uint64_t mapped = round_up(buffer->bytes, small_page_bytes);
  if (kept < mapped) {
    if (const auto gone = buffer->mapping.unplace(kept, mapped - kept); !gone) {
      return report(owner, to_failure(gone.error(), "the end of the buffer can't be unmapped"));
    }
  }
  buffer->bytes = bytes;
  const auto reply =
      owner->client->ask_on<wire::Done>(buffer->epoch, wire::TruncateBuffer{buffer->number, bytes}, patience);
  return reply ? PST_DONE : report(owner, reply.error());
}

void pst_host_buffer_close(pst_host_buffer* buffer) {
  if (check_handle(owner_of(buffer)) != PST_DONE) return;
  pst_client* const owner = buffer->owner;
  if (auto handle = owner->buffers.take(buffer)) {
    handle->mapping = Mapping();
    owner->client->post_on(handle->epoch, wire::FreeBuffer{handle->number});
  }
}
