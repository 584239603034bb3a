// SPDX-License-Identifier: Apache-2.0
#include "service/control/source_places.hpp"

namespace penstock {

SourcePlace cheapest_place(SourcePlace now, std::uint64_t bytes, std::uint64_t locked_host_bytes,
                           std::uint64_t page_cache_bytes) {
  const auto holds = [&](SourcePlace place, std::uint64_t held) {
    return bytes > 0 && held >= (place == now ? bytes / 2 : bytes - bytes / 4);
  };
  if (holds(SourcePlace::locked_host, locked_host_bytes)) return SourcePlace::locked_host;
  if (holds(SourcePlace::page_cache, page_cache_bytes)) return SourcePlace::page_cache;
  return SourcePlace::disk;
}

SourcePlace place_in_client(SourcePlace now, const ProcessMemory* memory) {
  if (memory == nullptr || !memory->anonymous || !memory->swapped) return SourcePlace::client_memory;
  const std::uint64_t away = memory->on_disk.value_or(*memory->swapped);
  const std::uint64_t all = *memory->anonymous + *memory->swapped;
  const std::uint64_t least = now == SourcePlace::client_swap ? all / 4 : all / 2;
  return away > least ? SourcePlace::client_swap : SourcePlace::client_memory;
}

void SourcePlaces::look(Nanoseconds now) {
  if (now < next_) return;
  next_ = now + period;
  const std::shared_ptr<const KernelStats> kernel = state_.kernel_stats();
  for (const auto& [id, table] : state_.tables.tables()) {
    const SourcePlace place = place_of(*table, kernel.get());
    if (place == table->source_place) continue;
    table->source_place = place;
    table->device->send(mail::MoveSource{.table = id, .place = place});
  }
}

SourcePlace SourcePlaces::place_of(const SharedTable& table, const KernelStats* kernel) const {
  if (!table.source) {
    const ProcessMemory* const memory = kernel != nullptr ? kernel->memory_of(raw(table.owner)) : nullptr;
    return place_in_client(table.source_place, memory);
  }
  // The tier is no source of the host device: its frames are such memory themselves.
  const bool from_tier = table.device->description().kind != "host";
  std::uint64_t bytes = 0, locked = 0, cached = 0;
  for (const auto& checkpoint : table.checkpoints) {
    bytes += checkpoint->identity().bytes;
    if (from_tier) locked += state_.locked_host_bytes(*checkpoint).value_or(0);
    cached += ServiceState::page_cache_bytes(*checkpoint, kernel).value_or(0);
  }
  return cheapest_place(table.source_place, bytes, locked, cached);
}

}  // namespace penstock
