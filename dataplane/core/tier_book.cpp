// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/tier_book.hpp"

#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

constexpr double uses_max = 8;  // More say nothing about the future, and would take as long to forget.
// Reads that pass by after a frame could not be made, before another is asked for.
constexpr std::uint64_t passes_after_refusal = 64;
// Of a page that a GPU holds: a copy of it is needed only once that GPU has evicted it, or by another GPU.
constexpr double resident_share = 0.25;

}  // namespace

TierFile TierBook::open(std::uint64_t bytes) {
  const TierFile file{++last_file_};
  files_.emplace(
      file, File{.bytes = std::max<std::uint64_t>(bytes, 1), .begun = clock_, .last = clock_, .pages = {}});
  return file;
}

void TierBook::forget(TierFile file) {
  const auto found = files_.find(file);
  if (found == files_.end()) return;
  while (!found->second.pages.empty()) {
    const TierFrame frame = found->second.pages.begin()->second;
    lose(frame, TierLoss::forgotten);
    leave(frame);
  }
  files_.erase(found);
}

void TierBook::drop(TierPage page) {
  const auto file = files_.find(page.file);
  if (file == files_.end()) return;
  const auto known = file->second.pages.find(page.index);
  if (known == file->second.pages.end()) return;
  const TierFrame frame = known->second;
  lose(frame, TierLoss::forgotten);
  leave(frame);
}

void TierBook::resident(TierFile file, std::int64_t bytes) {
  const auto found = files_.find(file);
  if (found != files_.end()) found->second.resident_bytes += bytes;
}

double TierBook::value(TierFile file) const {
  const File& entry = files_.at(file);
  return worth(entry, entry.last);
}

double TierBook::worth(const File& entry, double clock) {
  const double bytes = static_cast<double>(entry.bytes);
  const double uses = std::clamp(static_cast<double>(entry.asked_bytes) / bytes, 1.0, uses_max);
  const double resident = std::clamp(static_cast<double>(entry.resident_bytes) / bytes, 0.0, 1.0);
  return clock + uses * (1 - (1 - resident_share) * resident);
}

TierBook::Answer TierBook::ask(TierPage page) {
  const auto file = files_.find(page.file);
  if (file == files_.end()) return {};
  const auto known = file->second.pages.find(page.index);
  if (known == file->second.pages.end()) return find_room(page, file->second);
  Frame& frame = at(known->second);
  if (frame.state == State::awaited || frame.state == State::filling) return {Way::wait, known->second};
  const bool empty = frame.state == State::empty;
  if (empty) frame.state = State::filling;
  ++frame.pins;
  return {empty ? Way::fill : Way::held, known->second};
}

// A new frame while the budget has one, else that of a page which is worth less: it is filled again as it is, since nobody
// copies from it and only writers of the service have it mapped.
TierBook::Answer TierBook::find_room(TierPage page, File& file) {
  note_use(page.file, file);
  if (figures_.frames < figures_.budget_frames && passes_ >= create_after_) {
    const TierFrame made = new_frame();
    at(made) = {.page = page, .state = State::awaited};
    ++figures_.awaited_frames;
    file.pages.emplace(page.index, made);
    return {Way::create, made};
  }
  const std::optional<TierFrame> taken = victim(page.file);
  if (!taken) return {};
  clock_ = std::max(clock_, value(at(*taken).page.file));
  lose(*taken, TierLoss::replaced);
  Frame& frame = at(*taken);
  frame.page = page;
  frame.state = State::filling;
  frame.pins = 1;
  file.pages.emplace(page.index, *taken);
  return {Way::fill, *taken};
}

// The last unpinned page of the file that is worth least, and less than the challenger.
std::optional<TierFrame> TierBook::victim(std::optional<TierFile> challenger) {
  std::optional<TierFrame> least;
  // What passes by in a use makes everything else older, but not for the one that uses: it would displace whatever is there.
  double least_worth = 0;
  if (challenger) {
    const File& file = files_.at(*challenger);
    least_worth = worth(file, file.begun);
  }
  for (const auto& [id, file] : files_) {
    if (id == challenger || file.pages.empty()) continue;
    const double here = value(id);
    if ((challenger || least) && here >= least_worth) continue;
    for (auto page = file.pages.rbegin(); page != file.pages.rend(); ++page) {
      const Frame& frame = at(page->second);
      if (frame.pins > 0 || (frame.state != State::valid && frame.state != State::empty)) continue;
      least = page->second;
      least_worth = here;
      break;
    }
  }
  return least;
}

TierFrame TierBook::new_frame() {
  ++figures_.frames;
  if (unused_.empty()) {
    frames_.emplace_back();
    make_room();
    return TierFrame{static_cast<std::uint32_t>(frames_.size() - 1)};
  }
  const TierFrame frame = unused_.back();
  unused_.pop_back();
  return frame;
}

void TierBook::make_room() {
  unused_.reserve(places());
  gone_.reserve(places());
  lost_.reserve(places());
}

// Its page is no longer found.
void TierBook::lose(TierFrame frame, TierLoss why) {
  Frame& entry = at(frame);
  files_.at(entry.page.file).pages.erase(entry.page.index);
  if (entry.state != State::valid) return;
  --figures_.valid_frames;
  ++figures_.evictions;
  lost_.push_back({.page = entry.page, .why = why});
}

void TierBook::leave(TierFrame frame) {
  Frame& entry = at(frame);
  // One that is not made yet leaves when it is.
  const bool is_there = entry.state != State::awaited;
  entry.state = State::leaving;
  ++figures_.leaving_frames;
  if (!is_there) ++entry.pins;  // Until made() or refused().
  leave_if_free(frame);
}

void TierBook::leave_if_free(TierFrame frame) {
  Frame& entry = at(frame);
  if (entry.state != State::leaving || entry.pins > 0) return;
  if (entry.holders != 0) {
    if (std::exchange(entry.called, true)) return;
    for (TierUser user = 0; user < tier_users_max; ++user) {
      if ((entry.holders >> user & 1u) != 0) calls_[user].push_back(frame);
    }
    return;
  }
  entry = {};
  --figures_.leaving_frames;
  --figures_.frames;
  unused_.push_back(frame);
  gone_.push_back(frame);
}

void TierBook::shrink() {
  while (figures_.frames - figures_.leaving_frames > figures_.budget_frames) {
    const std::optional<TierFrame> frame = victim(std::nullopt);
    if (!frame) return;
    lose(*frame, TierLoss::budget);
    leave(*frame);
  }
}

void TierBook::note_use(TierFile id, File& file) {
  if (std::exchange(in_use_, id) != id) file.begun = clock_;
  file.last = clock_;
}

void TierBook::served(TierFile file, std::uint64_t bytes, Served how) {
  const auto found = files_.find(file);
  if (found != files_.end()) note_use(file, found->second);
  const bool hit = how == Served::hit;
  ++(hit ? figures_.hits : figures_.misses);
  (hit ? figures_.hit_bytes : figures_.miss_bytes) += bytes;
  if (how == Served::pass) {
    ++passes_;
    const std::uint64_t tier_bytes = std::max<std::uint64_t>(figures_.budget_frames, 1) * page_bytes_;
    clock_ += static_cast<double>(bytes) / static_cast<double>(tier_bytes);
  }
  if (found == files_.end()) return;
  found->second.asked_bytes += bytes;
  found->second.last = clock_;
}

void TierBook::filled(TierFrame frame, bool ok) {
  Frame& entry = at(frame);
  CHECK(entry.pins > 0 && (entry.state == State::filling || entry.state == State::leaving));
  --entry.pins;
  if (entry.state == State::filling && ok) {
    entry.state = State::valid;
    ++figures_.valid_frames;
  } else if (entry.state == State::filling) {
    lose(frame, TierLoss::forgotten);
    leave(frame);
  }
  leave_if_free(frame);
  shrink();
}

void TierBook::unpin(TierFrame frame) {
  CHECK(at(frame).pins > 0);
  --at(frame).pins;
  leave_if_free(frame);
  shrink();
}

void TierBook::hold(TierFrame frame, TierUser user) {
  at(frame).holders |= 1u << user;
  calls_[user].reserve(places());
}

void TierBook::let_go(TierFrame frame, TierUser user) {
  at(frame).holders &= ~(1u << user);
  leave_if_free(frame);
}

void TierBook::made(TierFrame frame) {
  --figures_.awaited_frames;
  Frame& entry = at(frame);
  if (entry.state == State::awaited) {
    entry.state = State::empty;
  } else {
    --entry.pins;
    leave_if_free(frame);
  }
  shrink();
}

void TierBook::refused(TierFrame frame) {
  --figures_.awaited_frames;
  create_after_ = passes_ + passes_after_refusal;
  if (at(frame).state == State::awaited) {
    lose(frame, TierLoss::forgotten);
    leave(frame);
  }
  --at(frame).pins;
  leave_if_free(frame);
}

void TierBook::set_budget(std::uint64_t frames) {
  figures_.budget_frames = frames;
  shrink();
}

void TierBook::take_gone(std::vector<TierFrame>& taken) {
  taken.assign(gone_.begin(), gone_.end());
  gone_.clear();
}

void TierBook::take_calls(TierUser user, std::vector<TierFrame>& taken) {
  taken.assign(calls_[user].begin(), calls_[user].end());
  calls_[user].clear();
}

void TierBook::take_lost(std::vector<Lost>& taken) {
  taken.assign(lost_.begin(), lost_.end());
  lost_.clear();
}

std::uint64_t TierBook::held_frames(TierFile file) const {
  const auto found = files_.find(file);
  if (found == files_.end()) return 0;
  return static_cast<std::uint64_t>(std::ranges::count_if(found->second.pages, [this](const auto& page) {
    return frames_[static_cast<std::size_t>(page.second)].state == State::valid;
  }));
}

void TierBook::verify() const {
  std::uint64_t frames = 0, valid = 0, leaving = 0, evictable = 0;
  for (std::size_t index = 0; index < frames_.size(); ++index) {
    const Frame& frame = frames_[index];
    if (frame.state == State::unused) continue;
    ++frames;
    valid += frame.state == State::valid;
    if (frame.state == State::leaving) {
      ++leaving;
      CHECK(frame.pins > 0 || frame.holders != 0);
      continue;
    }
    const auto file = files_.find(frame.page.file);
    CHECK(file != files_.end() && file->second.pages.at(frame.page.index) == TierFrame(index));
    CHECK((frame.state == State::filling) <= (frame.pins > 0));
    evictable += frame.pins == 0 && frame.state != State::awaited;
  }
  std::uint64_t found = 0;
  for (const auto& [id, file] : files_) found += file.pages.size();
  CHECK(found == frames - leaving);
  CHECK(frames == figures_.frames && valid == figures_.valid_frames && leaving == figures_.leaving_frames);
  CHECK(frames - leaving <= figures_.budget_frames || evictable == 0);
}

}  // namespace penstock
