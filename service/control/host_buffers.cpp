// SPDX-License-Identifier: Apache-2.0
#include "service/control/host_buffers.hpp"

#include <algorithm>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "dataplane/base/lock_memory.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/base/units.hpp"
#include "service/policy/amount.hpp"

namespace penstock {
namespace {

// Copies from the tier that are under way, and writers that unmap: milliseconds, unless a writer is stuck.
constexpr Nanoseconds giving_back_limit = std::chrono::seconds(2);
// Made present at a time: what is missing is known that exactly.
constexpr std::uint64_t step_bytes = 8 * mib;

template <class Came>
Result<> lock_in_steps(const Mapping& mapping, Came came) {
  for (std::uint64_t at = 0; at < mapping.size(); at += step_bytes) {
    const std::uint64_t bytes = std::min<std::uint64_t>(step_bytes, mapping.size() - at);
    TRY(lock_memory(mapping, at, bytes));
    came(bytes);
  }
  return {};
}

}  // namespace

void HostBuffers::Memory::empty() const {
  if (fd && !left && !shrink(fd.get(), 0)) spdlog::warn("a host buffer could not be emptied");
}

Outcome<std::shared_ptr<HostBuffers::Memory>> HostBuffers::make(std::uint64_t bytes, Missing& missing) {
  auto memory = std::make_shared<Memory>();
  auto fd = create_shrinkable_memfd("penstock-buffer", bytes);
  if (!fd) {
    return fail(
        FailureKind::exhausted,
        fmt::format("can't make a buffer of {}: {}", format_bytes(bytes), std::strerror(fd.error().native)),
        "raise LimitNOFILE= or the memory limit of the service");
  }
  memory->fd = std::move(*fd);
  auto mapping = Mapping::shared(memory->fd.get(), bytes, Access::read_write);
  if (!mapping) return fail(FailureKind::exhausted, "no address space for a buffer");
  if (auto locked = lock_in_steps(*mapping, [&](std::uint64_t came) { missing.came(came); }); !locked) {
    return fail(
        FailureKind::exhausted,
        fmt::format("can't lock {} in memory: {}", format_bytes(bytes), std::strerror(locked.error().native)),
        "raise LimitMEMLOCK= of the service, or give it CAP_IPC_LOCK");
  }
  memory->locked = std::move(*mapping);
  return memory;
}

void HostBuffers::share_with(std::shared_ptr<HostTier> tier) {
  tier_ = std::move(tier);
  share();
}

void HostBuffers::set_allowed(std::uint64_t buffers_bytes, std::uint64_t tier_bytes) {
  budget_.set_allowed(buffers_bytes);
  tier_allowed_bytes_ = tier_bytes;
  share();
}

std::uint64_t HostBuffers::tier_share() const {
  const std::uint64_t whole = budget_.budget_bytes();
  return std::min(whole - std::min(whole, budget_.used_bytes()), tier_allowed_bytes_);
}

void HostBuffers::share() {
  if (tier_) tier_->set_budget(tier_share());
}

void HostBuffers::create(SessionId session, std::uint64_t bytes, Answer answer) {
  const std::uint64_t whole = round_up(bytes, small_page_bytes);
  const std::uint64_t promised = missing_bytes();
  headroom_.read_anew();
  const std::uint64_t headroom = saturating_subtract(headroom_.headroom_bytes(), promised);
  const std::uint64_t in_tier = tier_ ? tier_->stats().used_bytes : 0;
  const bool sum_fits = headroom <= UINT64_MAX - in_tier;
  const auto id = budget_.allocate(session, whole, sum_fits ? headroom + in_tier : headroom);
  if (!id) return answer(tl::unexpected<Failure>(id.error()));
  // Where the cgroup has less than the budget, the tier makes room there, too.
  const std::uint64_t lacking = whole > headroom ? whole - headroom : 0;
  const std::uint64_t left_to_tier = std::min(tier_share(), in_tier - std::min(in_tier, lacking));
  if (tier_) tier_->set_budget(lacking > 0 ? left_to_tier : tier_share());
  buffers_.emplace(*id, Buffer{session, nullptr});
  opener_.run<std::shared_ptr<Memory>>(
      fmt::format("a host buffer of {}", format_bytes(whole)),
      [whole, tier = tier_, missing = std::make_shared<Missing>(missing_bytes_, whole),
       most = lacking > 0 ? left_to_tier : tier_share()]() -> Outcome<std::shared_ptr<Memory>> {
        if (tier && !tier->wait_until_at_most(most, giving_back_limit)) {
          return fail(FailureKind::exhausted, "the pinned host tier could not give memory back in time",
                      "try again; penstock status shows what it uses");
        }
        return make(whole, *missing);
      },
      [this, id = *id, answer = std::move(answer)](Outcome<std::shared_ptr<Memory>> memory) {
        made(id, std::move(memory), answer);
      });
}

void HostBuffers::made(HostBufferId id, Outcome<std::shared_ptr<Memory>> memory, const Answer& answer) {
  const auto found = buffers_.find(id);
  share();
  if (found == buffers_.end()) return answer(fail(FailureKind::cancelled, "the session has ended"));
  const SessionId session = found->second.session;
  const int copy = memory ? ::fcntl((*memory)->fd.get(), F_DUPFD_CLOEXEC, 0) : -1;
  if (copy < 0) {
    buffers_.erase(found);
    static_cast<void>(budget_.free(session, id));
    share();
    if (!memory) return answer(tl::unexpected<Failure>(memory.error()));
    return answer(fail(FailureKind::fd_limit, "the service is out of descriptors",
                       "raise LimitNOFILE= of the service"));
  }
  found->second.memory = std::move(*memory);
  auto made = std::make_shared<Made>();
  made->buffer = raw(id);
  made->fd = UniqueFd(copy);
  answer(made);
}

Outcome<void> HostBuffers::truncate(SessionId session, std::uint64_t buffer, std::uint64_t bytes) {
  const std::uint64_t whole = round_up(bytes, small_page_bytes);
  const auto freed = budget_.truncate(session, HostBufferId{buffer}, whole);
  if (!freed) return tl::unexpected(freed.error());
  const auto found = buffers_.find(HostBufferId{buffer});
  if (found == buffers_.end() || !found->second.memory) return {};
  Memory& memory = *found->second.memory;
  if (!shrink(memory.fd.get(), whole)) return fail(FailureKind::internal, "can't truncate a buffer");
  share();
  return {};
}

Outcome<void> HostBuffers::free(SessionId session, std::uint64_t buffer) {
  const auto freed = budget_.free(session, HostBufferId{buffer});
  if (!freed) return tl::unexpected(freed.error());
  const auto found = buffers_.find(HostBufferId{buffer});
  if (found != buffers_.end() && found->second.memory) found->second.memory->empty();
  buffers_.erase(HostBufferId{buffer});
  share();
  return {};
}

Outcome<BufferPlace> HostBuffers::place(SessionId session, std::uint64_t buffer, std::uint64_t offset,
                                        std::uint64_t bytes) const {
  const auto found = buffers_.find(HostBufferId{buffer});
  if (found == buffers_.end() || found->second.session != session || !found->second.memory)
    return fail(FailureKind::not_found, fmt::format("there is no buffer {}", buffer));
  const auto& memory = found->second.memory;
  const std::uint64_t whole = memory->locked.size();
  if (offset > whole || bytes > whole - offset) {
    return fail(FailureKind::invalid_argument,
                fmt::format("{} bytes at {} leave the buffer of {}", bytes, offset, whole));
  }
  return BufferPlace{memory, memory->fd.get(), offset, memory->locked.bytes().data() + offset};
}

void HostBuffers::leave(SessionId session) {
  for (auto& [id, buffer] : buffers_) {
    if (buffer.session == session && buffer.memory) buffer.memory->left = true;
  }
  close(session);
}

void HostBuffers::close(SessionId session) {
  for (const auto& [id, buffer] : buffers_) {
    if (buffer.session == session && buffer.memory) buffer.memory->empty();
  }
  std::erase_if(buffers_, [&](const auto& entry) { return entry.second.session == session; });
  budget_.close_session(session);
  share();
}

}  // namespace penstock
