// SPDX-License-Identifier: Apache-2.0
#include "service/policy/copy_ledger.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "service/policy/amount.hpp"

namespace penstock {

Outcome<void> CopyLedger::book(SessionId session, const Asked& asked) {
  if (asked.bytes == 0) {
    const auto owner = sessions_.find(session);
    if (owner == sessions_.end()) return {};
    owner->second.erase(asked.copy);
    if (owner->second.empty()) sessions_.erase(owner);
    return {};
  }
  const auto gpu = std::ranges::find(gpus_, asked.gpu, &Gpu::id);
  if (gpu == gpus_.end()) {
    return fail(FailureKind::not_found, fmt::format("{} is no GPU that copies are counted on", asked.gpu),
                "`penstock status` lists the GPUs");
  }
  const auto index = static_cast<std::size_t>(gpu - gpus_.begin());
  const auto owner = sessions_.find(session);
  const bool is_known = owner != sessions_.end() && owner->second.contains(asked.copy);
  if (!is_known && owner != sessions_.end() && owner->second.size() >= copies_per_session_max) {
    return fail(FailureKind::busy,
                fmt::format("the session has {} copies, which is the most", owner->second.size()),
                "close some");
  }
  if (!asked.exists) {
    std::uint64_t booked = figures_of(index).copies_bytes;
    if (is_known && owner->second.at(asked.copy).gpu == index)
      booked = saturating_subtract(booked, owner->second.at(asked.copy).bytes);
    const std::uint64_t usable = saturating_subtract(gpu->total_bytes, gpu->headroom_bytes);
    if (const std::uint64_t left = saturating_subtract(usable, booked); asked.bytes > left) {
      return fail(
          FailureKind::exhausted,
          fmt::format("a copy of {} on {}: copies of tables take {} of {}, and {} are left",
                      amount(asked.bytes), gpu->id, amount(booked), amount(usable), amount(left)),
          "memory of this GPU can't be shared, so that each process needs room for the whole table there");
    }
  }
  sessions_[session][asked.copy] = {.gpu = index, .bytes = asked.bytes};
  return {};
}

CopyLedger::Figures CopyLedger::figures_of(std::size_t gpu) const {
  Figures figures{.gpu = &gpus_[gpu], .copies_bytes = 0, .sessions = 0};
  for (const auto& [session, copies] : sessions_) {
    bool has_any = false;
    for (const auto& [number, copy] : copies) {
      if (copy.gpu != gpu) continue;
      has_any = true;
      figures.copies_bytes = saturating_add(figures.copies_bytes, copy.bytes);
    }
    if (has_any) ++figures.sessions;
  }
  return figures;
}

std::vector<CopyLedger::Figures> CopyLedger::figures() const {
  std::vector<Figures> all;
  all.reserve(gpus_.size());
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) all.push_back(figures_of(gpu));
  return all;
}

std::map<std::string_view, std::uint64_t> CopyLedger::bytes_of(SessionId session) const {
  std::map<std::string_view, std::uint64_t> bytes;
  const auto owner = sessions_.find(session);
  if (owner == sessions_.end()) return bytes;
  for (const auto& [number, copy] : owner->second) {
    std::uint64_t& sum = bytes[gpus_[copy.gpu].id];
    sum = saturating_add(sum, copy.bytes);
  }
  return bytes;
}

}  // namespace penstock
