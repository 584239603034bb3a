// SPDX-License-Identifier: Apache-2.0
#include "service/control/service_state.hpp"

#include <algorithm>

#include "service/control/session.hpp"

namespace penstock {

void ServiceState::decide(std::string_view kind, std::string subject, std::uint64_t bytes,
                          std::string_view reason,
                          std::vector<std::pair<std::string_view, std::uint64_t>> inputs) {
  decisions.add({.time = std::chrono::system_clock::now(),
                 .kind = kind,
                 .subject = std::move(subject),
                 .bytes = bytes,
                 .reason = reason,
                 .inputs = std::move(inputs)});
}

void ServiceState::session_ended(FailureKind reason) {
  SessionOutcome outcome = SessionOutcome::closed;
  if (reason == FailureKind::disconnected) outcome = SessionOutcome::disconnected;
  if (reason == FailureKind::protocol_violation) outcome = SessionOutcome::violated;
  if (reason == FailureKind::protocol_mismatch || reason == FailureKind::not_permitted)
    outcome = SessionOutcome::refused;
  if (reason == FailureKind::revoke_timeout) outcome = SessionOutcome::killed;
  ++sessions_ended[static_cast<std::size_t>(outcome)];
}

ServiceStats ServiceState::stats() const {
  ServiceStats figures;
  figures.clients = static_cast<std::uint64_t>(
      std::ranges::count_if(sessions, [](const auto& entry) { return entry.second->greeted(); }));
  figures.sessions = sessions_ended;
  const HostTier* const tier = host_buffers ? host_buffers->tier() : nullptr;
  figures.locked_host_bytes =
      (host_buffers ? host_buffers->bytes() : 0) + (tier != nullptr ? tier->stats().used_bytes : 0);
  figures.locked_host_budget_bytes = host_buffers ? host_buffers->budget_bytes() : 0;
  figures.pressure = pressure;
  const std::shared_ptr<const KernelStats> seen = kernel_stats();
  for (const auto& [id, checkpoint] : checkpoints.entries()) {
    std::uint64_t resident = 0;
    for (const auto& table : tables.of(*checkpoint))
      resident += std::min(table->resident_bytes(), table->bytes);
    figures.checkpoints.push_back({.id = id, .place = CheckpointPlace::device, .bytes = resident});
    if (tier != nullptr) {
      figures.checkpoints.push_back(
          {.id = id, .place = CheckpointPlace::locked_host, .bytes = tier->bytes_of(checkpoint->identity())});
    }
    const PageCacheFigures* const page_cache = seen ? seen->find(id) : nullptr;
    const std::optional<std::uint64_t> cached =
        page_cache != nullptr ? page_cache->resident_bytes() : std::nullopt;
    if (cached)
      figures.checkpoints.push_back({.id = id, .place = CheckpointPlace::page_cache, .bytes = *cached});
  }
  return figures;
}

void ServiceState::drop_idle() {
  for (const auto& table : tables.surplus()) tables.close(table);
  std::vector<std::shared_ptr<Checkpoint>> dead = checkpoints.surplus();
  for (const auto& [id, fresh] : checkpoints.entries()) {
    if (fresh->sessions == 0) continue;
    // The file was changed or replaced: nobody will ask for its old content again.
    for (const auto& old : checkpoints.outdated_by(fresh->identity())) {
      if (old->sessions == 0 && old->last_used < fresh->last_used) dead.push_back(old);
    }
  }
  for (const auto& checkpoint : dead) {
    bool used = false;
    for (const auto& table : tables.of(*checkpoint)) {
      if (table->attached == 0)
        tables.close(table);
      else
        used = true;
    }
    if (!used) checkpoints.forget(checkpoint->id);
  }
}

}  // namespace penstock
