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

std::uint64_t ServiceState::device_bytes(const Checkpoint& checkpoint) const {
  std::uint64_t bytes = 0;
  for (const auto& table : tables.of(checkpoint)) bytes += std::min(table->resident_bytes(), table->bytes);
  return bytes;
}

std::optional<std::uint64_t> ServiceState::locked_host_bytes(const Checkpoint& checkpoint) const {
  const HostTier* const tier = host_buffers ? host_buffers->tier() : nullptr;
  return tier != nullptr ? std::optional(tier->bytes_of(checkpoint.identity())) : std::nullopt;
}

std::optional<std::uint64_t> ServiceState::page_cache_bytes(const Checkpoint& checkpoint,
                                                            const KernelStats* kernel) {
  const PageCacheFigures* const figures = kernel != nullptr ? kernel->find(checkpoint.id) : nullptr;
  return figures != nullptr ? figures->resident_bytes() : std::nullopt;
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
    const auto add = [&figures, &id = id](CheckpointPlace place, std::optional<std::uint64_t> measured) {
      if (measured) figures.checkpoints.push_back({.id = id, .place = place, .bytes = *measured});
    };
    add(CheckpointPlace::device, device_bytes(*checkpoint));
    add(CheckpointPlace::locked_host, locked_host_bytes(*checkpoint));
    add(CheckpointPlace::page_cache, page_cache_bytes(*checkpoint, seen.get()));
  }
  return figures;
}

void ServiceState::drop_idle() {
  for (const auto& table : tables.surplus()) tables.close(table);
  std::vector<std::shared_ptr<Checkpoint>> dead = checkpoints.surplus();
  for (const auto& [id, fresh] : checkpoints.entries()) {
    if (fresh->sessions == 0) {
      if (fresh->unlinked || fresh->unwanted) dead.push_back(fresh);
      continue;
    }
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

void ServiceState::drop_unlinked() {
  const std::shared_ptr<const KernelStats> seen = kernel_stats();
  if (!seen || seen->at == unlinked_seen_at) return;
  unlinked_seen_at = seen->at;
  bool any = false;
  for (const PageCacheFigures& figures : seen->checkpoints) {
    const auto checkpoint = checkpoints.find(figures.checkpoint);
    if (!checkpoint || !figures.sample) continue;
    checkpoint->unlinked = figures.sample->unlinked && checkpoint->file->links() > 0;
    any = any || (checkpoint->unlinked && checkpoint->sessions == 0);
  }
  if (any) drop_idle();
}

}  // namespace penstock
