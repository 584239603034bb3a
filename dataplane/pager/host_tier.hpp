// SPDX-License-Identifier: Apache-2.0
// HostTier: the node's pinned host tier: bytes of checkpoint files in locked host memory, one copy for all GPUs. Their
// pipelines ask it before they read, and read into it what it wants to hold. DESIGN.md has states and invariants (T1 ...);
// what is held, and for how long, is decided by TierBook.
//
// Any thread. A mutex is held for moves only. A user is a dataplane thread; it watches user_fd() and frames_fd().
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/core/tier_book.hpp"
#include "dataplane/device/host/frame_maker.hpp"
#include "dataplane/io/checkpoint_file.hpp"
#include "dataplane/pager/stats.hpp"

namespace penstock {

struct HostTierOptions {
  std::uint64_t page_bytes = default_host_frame_bytes;
  std::uint64_t capacity_bytes = 0;        // The most that a budget can be.
  std::uint64_t budget_bytes = 0;          // To begin with.
  std::uint64_t reserve_bytes = 16 * mib;  // Left to others in the tightest cgroup, after each frame.
  HostPages pages = HostPages::huge;
};

class HostTier {
 public:
  struct Place {
    TierBook::Way way = TierBook::Way::pass;
    TierFrame frame{};
    std::span<std::byte>
        memory{};  // Of `held` and `fill`, with its descriptor; valid while it is pinned or held.
    int fd = -1;
  };
  // What the tier has dropped, for the log of decisions.
  struct Dropped {
    std::string checkpoint;  // Its id.
    TierLoss why = TierLoss::replaced;
    std::uint64_t bytes = 0;
    std::uint64_t used_bytes = 0, budget_bytes = 0;
  };

  // `headroom` outlives the tier. Errc::exhausted: no descriptor is left.
  static Result<std::shared_ptr<HostTier>> make(const HostTierOptions& options, HeadroomSource& headroom);
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  std::uint64_t page_bytes() const { return options_.page_bytes; }

  // ---- the service ----
  // Files that may be held. One that is not announced, or was forgotten, is neither held nor filled.
  void announce(const FileIdentity& file);
  void forget(const FileIdentity& file);
  // The governor's one call: what the tier may use from now on, of the budget that it shares with the host buffers.
  void set_budget(std::uint64_t bytes);
  // Until no more than that is used; false when it still is after `limit`. For threads that may wait.
  bool wait_until_at_most(std::uint64_t bytes, Nanoseconds limit);
  TierStats stats() const;
  std::uint64_t bytes_of(const FileIdentity& file) const;
  std::vector<Dropped> take_dropped();

  // ---- users ----
  // Errc::exhausted: there are as many as there can be, or no descriptor is left.
  Result<TierUser> add_user();
  int user_fd(TierUser user) const;
  int frames_fd() const { return maker_.event_fd(); }
  // Takes what was made. True when the user was woken since: what it waited for may have come, or it is called.
  bool collect(TierUser user);
  std::optional<TierFile> find(const FileIdentity& file) const;
  // As TierBook's; the user holds what it is given until it lets go.
  Place ask(TierUser user, TierPage page);
  void served(TierFile file, std::uint64_t bytes, TierBook::Served how);
  void filled(TierFrame frame, bool ok);
  void unpin(TierFrame frame);
  void resident(TierFile file, std::int64_t bytes);
  void forget(TierFile file);
  void drop(TierPage page);
  // In place of what is in `taken`.
  void take_calls(TierUser user, std::vector<TierFrame>& taken);
  void let_go(TierFrame frame, TierUser user);

 private:
  HostTier(const HostTierOptions& options, HeadroomSource& headroom, EventFd made);
  // A file that may be held, or of which something was dropped since the last take_dropped(), in pages by TierLoss.
  struct Known {
    FileIdentity identity;
    std::array<std::uint64_t, tier_losses> dropped{};
  };

  void settle();
  void count_lost();
  void wake_waiting();

  const HostTierOptions options_;
  FrameMaker maker_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  TierBook book_;
  std::map<FileIdentity, TierFile> files_;
  std::map<TierFile, Known> known_;
  std::vector<HostFrame> frames_;     // By TierFrame.
  std::vector<FrameAnswer> answers_;  // Scratch.
  std::vector<EventFd> users_;
  std::uint32_t waiting_ = 0;  // Users, a bit each.
  // Scratch, with room for all frames: a budget that falls allocates nothing.
  std::vector<TierFrame> gone_;
  std::vector<TierBook::Lost> lost_;
};

// A pipeline's part in it.
struct TierAccess {
  std::shared_ptr<HostTier> tier;  // Null: none.
  TierUser user = 0;
};

}  // namespace penstock
