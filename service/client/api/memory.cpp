// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "service/client/api/handles.hpp"

using namespace penstock;

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
  const auto reply = client->client->ask_on<wire::AdmitReply>(
      *epoch, message, client->client->patience_beyond(time_of(wanted.timeout_ns)));
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

pst_status pst_table_free(pst_table* table, uint64_t bytes, uint64_t timeout_ns, uint64_t* freed) {
  if (const pst_status status = check_handle(owner_of(table), freed != nullptr); status != PST_DONE)
    return status;
  *freed = 0;
  if (table->copy) return PST_DONE;  // It goes as a whole, when it is closed.
  *freed = table->owner->client->free(*table->open, bytes, deadline_after(timeout_ns));
  return PST_DONE;
}
