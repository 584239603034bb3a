// SPDX-License-Identifier: Apache-2.0
// Page-locked host buffers of all clients out of the node's one budget. Service thread only; the memory is made present
// and locked on the Opener's threads, since that takes up to a second a GiB.
//
// The pinned host tier has what the buffers leave of that budget, and gives way to them: a buffer is made once the tier
// has given back what it needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/headroom_source.hpp"
#include "dataplane/pager/host_tier.hpp"
#include "service/control/buffer_reads.hpp"
#include "service/control/opener.hpp"
#include "service/policy/host_budget.hpp"

namespace penstock {

class HostBuffers {
 public:
  struct Made {
    std::uint64_t buffer = 0;
    UniqueFd fd;  // For the client.
  };
  using Answer = std::function<void(Outcome<std::shared_ptr<Made>>)>;

  HostBuffers(Opener& opener, HeadroomSource& headroom, const HostBudgetOptions& options)
      : opener_(opener), headroom_(headroom), budget_(options) {}

  // Once, before the first buffer.
  void share_with(std::shared_ptr<HostTier> tier);
  // What pressure leaves of the budget. Buffers that exist stay; the tier gives way at once.
  void set_allowed(std::uint64_t buffers_bytes, std::uint64_t tier_bytes);

  void open(SessionId session, std::uint32_t user) { budget_.open_session(session, user); }
  // Its buffers are truncated, so that a forked child can't keep the memory, and given back.
  void close(SessionId session);
  // The service stops, and the client goes on: what it has mapped stays as it is until it unmaps it.
  void leave(SessionId session);
  void create(SessionId session, std::uint64_t bytes, Answer answer);
  Outcome<void> truncate(SessionId session, std::uint64_t buffer, std::uint64_t bytes);
  Outcome<void> free(SessionId session, std::uint64_t buffer);
  // Where a range of it lies; its owner may cut it off all the same.
  Outcome<BufferPlace> place(SessionId session, std::uint64_t buffer, std::uint64_t offset,
                             std::uint64_t bytes) const;

  std::uint64_t bytes() const { return budget_.used_bytes(); }
  // Of buffers that are being made: promised, and in no reading of the room yet. Whoever subtracts it asks for it before
  // the room, so that what is made in between is counted twice rather than not at all.
  std::uint64_t missing_bytes() const { return *missing_bytes_; }
  // What pressure leaves of it.
  std::uint64_t budget_bytes() const { return budget_.allowed_bytes(); }
  const HostTier* tier() const { return tier_.get(); }
  std::uint64_t bytes_of(SessionId session) const { return budget_.session_bytes(session); }

 private:
  struct Memory {
    UniqueFd fd;
    Mapping locked;  // Keeps the pages locked while it is there.
    bool left = false;
    // The client, or a child of it, may still map the file: without this it would keep the memory. What reads into it
    // fails from then on.
    void empty() const;
    ~Memory() { empty(); }
  };
  struct Buffer {
    SessionId session{};
    std::shared_ptr<Memory> memory;  // Null while it is being made.
  };

  // What one job has yet to make present, as its part of the sum; nothing when the job has ended, however it did.
  class Missing {
   public:
    Missing(std::shared_ptr<std::atomic<std::uint64_t>> sum, std::uint64_t bytes)
        : sum_(std::move(sum)), bytes_(bytes) {
      *sum_ += bytes;
    }
    ~Missing() { came(bytes_); }
    Missing(const Missing&) = delete;
    Missing& operator=(const Missing&) = delete;
    void came(std::uint64_t bytes) {
      *sum_ -= bytes;
      bytes_ -= bytes;
    }

   private:
    std::shared_ptr<std::atomic<std::uint64_t>> sum_;
    std::uint64_t bytes_;
  };

  static Outcome<std::shared_ptr<Memory>> make(std::uint64_t bytes, Missing& missing);
  void share();
  std::uint64_t tier_share() const;
  void made(HostBufferId id, Outcome<std::shared_ptr<Memory>> memory, const Answer& answer);

  Opener& opener_;
  HeadroomSource& headroom_;
  HostBudget budget_;
  std::map<HostBufferId, Buffer> buffers_;
  // Jobs may outlive this.
  std::shared_ptr<std::atomic<std::uint64_t>> missing_bytes_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::shared_ptr<HostTier> tier_;
  std::uint64_t tier_allowed_bytes_ = UINT64_MAX;
};

}  // namespace penstock
