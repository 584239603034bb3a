// SPDX-License-Identifier: Apache-2.0
// ExtentTable: hands out the places of the shared arrays. Pure.
//
// What was given back first is taken first: a program that found a key just before it was removed may still count at
// its place for microseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace penstock {

// Consecutive places [first, first + count).
struct ExtentRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t shift = 0;  // 1 << shift pages each.
  friend bool operator==(const ExtentRun&, const ExtentRun&) = default;
};

class ExtentTable {
 public:
  static constexpr std::uint32_t smallest_shift = 9;  // The largest folio: none lies in two extents.
  static constexpr std::uint32_t usual_shift = 12;    // 16 MiB with pages of 4 KiB.
  static constexpr std::uint32_t run_max = 8192;      // So that one huge file does not take all places.

  // For at most `files` at a time. REQUIRES: there is a place for each.
  ExtentTable(std::uint32_t places, std::uint32_t files);

  // For a file of `pages` pages: extents of the usual size, or the least larger one that makes few enough. The fewer
  // places are left, the larger they are; of the last files each has one. Nothing when there are as many files already.
  std::optional<ExtentRun> take(std::uint64_t pages);
  void give_back(const ExtentRun& run);
  std::uint32_t free_places() const;
  // What take() gives where there is room for at most `most` of them; the first place is none.
  static ExtentRun shape(std::uint64_t pages, std::uint32_t most = run_max);

 private:
  struct Hole {
    std::uint32_t first;
    std::uint32_t count;
  };
  const std::uint32_t files_max_;
  std::uint32_t files_ = 0;
  std::deque<Hole> holes_;  // The one that was given back last is the last.
};

}  // namespace penstock
