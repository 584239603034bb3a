// SPDX-License-Identifier: Apache-2.0
// TierBook: what the pinned host tier holds, and why. Files are cut into equal tier pages; a tier page is the bytes of a
// file, so that every table of every GPU that shows those bytes can be filled from it. Decides which page gets a frame of
// host memory, which loses it, and when a frame can be given back. Pure: the tier makes and destroys the memory.
//
//   frame:  awaited -> empty -> filling -> valid -> (empty, of another page | leaving -> gone)
//
//  B1 A tier page has at most one frame; a frame at most one page; used() counts each frame until it is gone.
//  B2 A frame that somebody fills or copies from (pins > 0) is never given to another page, nor gone.
//  B3 A frame is gone only when no user's writer has its memory mapped any more.
//  B4 A frame is asked for only while used() < budget. Above the budget no unpinned frame stays but the leaving ones.
//  B5 A page never takes the frame of another page of its own file, nor of a file that is worth as much.
//  B6 Nothing of a forgotten file is held, found or filled.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace penstock {

enum class TierFile : std::uint32_t {};   // A file inside one tier. Never reused.
enum class TierFrame : std::uint32_t {};  // A place in the book; used again once its frame is gone.
using TierUser = std::uint32_t;           // A device's thread, numbered from 0.

inline constexpr TierUser tier_users_max = 32;

struct TierPage {
  TierFile file{};
  std::uint32_t index = 0;
  friend auto operator<=>(const TierPage&, const TierPage&) = default;
};

enum class TierLoss : std::uint8_t { replaced, budget, forgotten };  // Why a valid page lost its frame.
inline constexpr std::size_t tier_losses = 3;

struct TierFigures {
  std::uint64_t frames = 0, valid_frames = 0, leaving_frames = 0, budget_frames = 0;
  std::uint64_t awaited_frames = 0;    // Of frames: being made.
  std::uint64_t hits = 0, misses = 0;  // Reads that were answered, and those that had to go to the file.
  std::uint64_t hit_bytes = 0, miss_bytes = 0;
  std::uint64_t evictions = 0;  // Valid pages that lost their frame, for whatever reason.
};

class TierBook {
 public:
  enum class Way : std::uint8_t {
    held,    // Valid, and pinned for the caller.
    fill,    // Pinned: the caller reads the page's bytes into the frame, then says filled().
    wait,    // The frame is being made, or somebody else fills it.
    create,  // As wait, and the caller has a frame made for it.
    pass,    // Not in the tier, nor worth it.
  };
  struct Answer {
    Way way = Way::pass;
    TierFrame frame{};
  };
  struct Lost {
    TierPage page;
    TierLoss why = TierLoss::replaced;
  };

  // Of a read: from the tier; from the file, into the tier; from the file, past it.
  enum class Served : std::uint8_t { hit, fill, pass };

  TierBook(std::uint64_t page_bytes, std::uint64_t budget_frames) : page_bytes_(page_bytes) {
    figures_.budget_frames = budget_frames;
  }

  TierFile open(std::uint64_t bytes);
  // The file has changed, or nobody will ask for it again. What is being filled or copied from leaves when that ends.
  void forget(TierFile file);
  // One page of it: what it holds is not to be believed.
  void drop(TierPage page);
  // Of what GPUs hold of the file; see value().
  void resident(TierFile file, std::int64_t bytes);

  Answer ask(TierPage page);
  // Once a read: counts it, and makes its file worth more.
  void served(TierFile file, std::uint64_t bytes, Served how);
  // Ends the pin of `fill`.
  void filled(TierFrame frame, bool ok);
  void unpin(TierFrame frame);
  // The user's writer is about to map the frame's memory.
  void hold(TierFrame frame, TierUser user);
  // It does not any more.
  void let_go(TierFrame frame, TierUser user);
  // The answers to `create`.
  void made(TierFrame frame);
  void refused(TierFrame frame);

  // What does not fit leaves at once, but for what is pinned.
  void set_budget(std::uint64_t frames);

  // Each once, in place of what is in `taken`: frames whose memory is to be given back; what a user is asked to let go
  // of, no longer pinned by anybody; valid pages that were dropped. The lists have room for all frames from the moment
  // that those exist, so that a smaller budget allocates nothing; `taken` keeps its room, too.
  void take_gone(std::vector<TierFrame>& taken);
  void take_calls(TierUser user, std::vector<TierFrame>& taken);
  void take_lost(std::vector<Lost>& taken);
  // Room that none of those lists outgrows, as long as each is taken after each call.
  std::size_t places() const { return frames_.capacity(); }
  bool calls(TierUser user) const { return !calls_[user].empty(); }

  const TierFigures& figures() const { return figures_; }
  std::uint64_t held_frames(TierFile file) const;  // Valid ones.
  // What a page of the file is worth: how recently and how often its bytes were asked for, and how much of it lies on no
  // GPU, so that the next load will ask the tier.
  double value(TierFile file) const;
  void verify() const;

 private:
  enum class State : std::uint8_t { unused, awaited, empty, filling, valid, leaving };
  struct Frame {
    TierPage page;
    State state = State::unused;
    std::uint32_t pins = 0;
    std::uint32_t holders = 0;  // A bit a user.
    bool called = false;        // Leaving: its holders were asked to let go.
  };
  struct File {
    std::uint64_t bytes = 0;
    std::uint64_t asked_bytes = 0;
    std::int64_t resident_bytes = 0;
    double begun = 0,
           last = 0;  // The book's clock when its present use began, and when it was last asked for.
    bool forgotten = false;
    std::map<std::uint32_t, TierFrame> pages;
  };

  Frame& at(TierFrame frame) { return frames_[static_cast<std::size_t>(frame)]; }
  Answer find_room(TierPage page, File& file);
  void note_use(TierFile id, File& file);
  static double worth(const File& file, double clock);
  std::optional<TierFrame> victim(std::optional<TierFile> challenger);
  TierFrame new_frame();
  void make_room();
  void lose(TierFrame frame, TierLoss why);
  void leave(TierFrame frame);
  void leave_if_free(TierFrame frame);
  void shrink();

  const std::uint64_t page_bytes_;
  std::map<TierFile, File> files_;
  std::vector<Frame> frames_;
  std::vector<TierFrame> unused_;
  std::vector<TierFrame> gone_;
  std::vector<TierFrame> calls_[tier_users_max];
  std::vector<Lost> lost_;
  TierFigures figures_;
  std::uint64_t passes_ = 0, create_after_ = 0;
  TierFile in_use_{};  // Whose use it is now: that of the file that was asked for last.
  std::uint32_t last_file_ = 0;
  double clock_ =
      0;  // Grows with what is dropped and what is passed by: files that nobody asks for fall behind.
};

}  // namespace penstock
