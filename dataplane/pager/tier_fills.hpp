// SPDX-License-Identifier: Apache-2.0
// TierFills: the tier pages that one pipeline is reading into the pinned host tier, or waits for. A page that is not held
// is opened by the first read that wants it; later ones wait with it. When it is over, all of them are asked again, or fail.
//
// A fill goes on when those who wanted it are gone: its bytes are good for the next. Dataplane thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/core/urgency.hpp"
#include "dataplane/io/read_stream.hpp"
#include "dataplane/pager/host_tier.hpp"

namespace penstock {

class TierFills {
 public:
  static constexpr std::uint64_t tag_bit = 1ull << 62;  // Of reads in the stream that are answered to take().
  using Reader = std::uint32_t;                         // Who waits; the pipeline's index of a read.

  struct Origin {
    TableId table{};
    StreamFile file{};
    std::shared_ptr<CheckpointFile> checkpoint;
  };
  // What has come of a page that readers waited for.
  struct Over {
    std::vector<Reader> readers;
    bool filled_here = false;          // By this pipeline: its bytes were read for them.
    std::optional<Failure> failure{};  // Else they ask again.
  };

  TierFills(const TierAccess& access, ReadStream& stream, std::uint64_t read_bytes_max)
      : access_(access), stream_(stream), read_bytes_max_(read_bytes_max) {}
  TierFills(const TierFills&) = delete;
  TierFills& operator=(const TierFills&) = delete;

  bool waits_for(TierPage page) const { return open_.contains(page); }
  // The answer to a read's question was `fill` or `wait`. REQUIRES: not open.
  void open(TierPage page, const Origin& origin, const HostTier::Place& place, Urgency urgency);
  // REQUIRES: open.
  void wait(TierPage page, Reader reader) { open_.at(page).readers.push_back(reader); }
  // The reader wants it no more.
  void leave(TierPage page, Reader reader);

  // Returns the table that the page was opened for.
  TableId take(const ReadStream::Answer& answer);
  // The tier may have news of pages that others fill.
  void ask_again();
  std::vector<Over> take_over() { return std::exchange(over_, {}); }

  // Reads that a fill needs at once.
  std::size_t reads_of_a_fill() const { return divide_up(access_.tier->page_bytes(), read_bytes_max_); }
  // Of pages that are open and not being filled: the stream must have room for them.
  std::size_t reads_to_come() const { return (open_.size() - by_serial_.size()) * reads_of_a_fill(); }
  std::uint64_t bulk_bytes() const { return bulk_bytes_; }
  bool busy(TableId table) const;
  // What the oldest fill waits for, for a person; empty when there is none.
  std::string waits_for() const;

 private:
  struct Open {
    Origin origin;
    Urgency urgency = Urgency::bulk;
    std::vector<Reader> readers;
    TierFrame frame{};
    std::uint32_t serial = 0;
    std::uint32_t open_reads = 0;
    bool filling = false;
    std::optional<Failure> failure{};
  };

  void start(TierPage page, Open& open, const HostTier::Place& place);
  void fail(Open& open, const ReadStream::Answer& answer);
  void end(std::map<TierPage, Open>::iterator open, Over over);

  const TierAccess access_;
  ReadStream& stream_;
  const std::uint64_t read_bytes_max_;
  std::map<TierPage, Open> open_;
  std::map<std::uint32_t, TierPage> by_serial_;
  std::vector<Over> over_;
  std::uint64_t bulk_bytes_ = 0;
  std::uint32_t last_serial_ = 0;
};

}  // namespace penstock
