// SPDX-License-Identifier: Apache-2.0
// LoadPipeline: fills frames with the bytes of their pages.
//
//   Load -> read plan -> reads, straight into the frame or into a slot of the ring -> (copy into the frame, maybe with a
//   conversion of dtypes -> fence -> slot given back) -> identity of the files checked -> Loaded
//
// Every Load is answered exactly once, when nothing is in flight for its frame any more; CancelLoad only makes that
// happen sooner. Pages that a client waits for start before bulk pages.
//
// Thread rule: made, used and destroyed on the device's dataplane thread. Only the destructor waits (for reads).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/ids.hpp"
#include "dataplane/core/pager_events.hpp"
#include "dataplane/core/read_plan.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/io/pinned_ring.hpp"
#include "dataplane/io/read_stream.hpp"
#include "dataplane/pager/mail.hpp"
#include "dataplane/pager/stream_files.hpp"
#include "dataplane/pager/table_scales.hpp"
#include "dataplane/pager/tier_fills.hpp"

namespace penstock {

struct LoadPipelineOptions {
  std::uint64_t read_bytes_max = 1ull << 20;     // Of one read straight into a frame.
  std::uint64_t bulk_bytes_ahead = 32ull << 20;  // Bulk reads pushed to the stream and not answered.
  std::uint32_t requests_max = 4096;             // The stream's own limit.
  std::uint32_t fault_requests = 256;            // Of those, kept free of bulk reads.
};

// What a table has read so far. Never falls.
struct TableReads {
  std::uint64_t direct_bytes = 0;
  std::uint64_t cached_bytes = 0;
  std::uint64_t tier_bytes = 0;  // Not read: the pinned host tier held them.
};

class LoadPipeline {
 public:
  // `ring` outlives the stream's reads because it is destroyed after it; `writer` outlives the pipeline.
  LoadPipeline(std::unique_ptr<PinnedRing> ring, std::unique_ptr<ReadStream> stream, FrameWriter& writer,
               const DeviceLimits& device, const LoadPipelineOptions& options, const TierAccess& tier = {});
  ~LoadPipeline();
  LoadPipeline(const LoadPipeline&) = delete;
  LoadPipeline& operator=(const LoadPipeline&) = delete;

  void open(TableId table, std::shared_ptr<const TableSource> source);
  // REQUIRES: !busy(table).
  void close(TableId table);
  // A load or a read of the table is under way.
  bool busy(TableId table) const;

  // REQUIRES: the table is open and the page is not being loaded, unless it is the same load, now more urgent.
  void load(const Load& load);
  // Of a load that was answered already: no effect.
  void cancel(const CancelLoad& cancel);
  void cancel_all();
  // The writer is gone with the copies that were queued: their pages fail, their slots are free. A late look of the lost
  // one at a slot harms nobody: what it reads goes into a frame that is destroyed.
  void writer_lost();

  // The page's frame has become resident, or is no more.
  void note_residency(PageKey page, bool resident);
  // It was found corrupt: what the pinned host tier holds of it is dropped.
  void distrust(PageKey page);

  // One round of everything above; never waits. `reached`: the newest fence. Appends what has ended.
  void poll(Nanoseconds now, FenceId reached, std::vector<Loaded>& loaded);
  // poll() left work that can go on at once.
  bool wants_poll() const { return wants_poll_; }
  std::optional<Nanoseconds> next_deadline() const { return stream_->next_deadline(); }
  int event_fd() const { return stream_->event_fd(); }

  bool idle() const;
  // What the oldest load waits for, for a person; empty when idle.
  std::string waits_for() const;
  // Of that: the device alone has not finished, the reader has.
  bool waits_for_copies_only() const;

  TableReads reads_of(TableId table) const;
  // Text of the newest failure of a page of this table, e.g. "unexpected end at 4096 of 12388".
  std::string failure_of(TableId table) const;
  const ReadCounters& counters() const { return stream_->counters(); }
  std::string_view backend() const { return stream_->backend(); }
  const PinnedRing& ring() const { return *ring_; }

 private:
  using PageIndex = std::uint32_t;  // Into pages_.
  using ReadIndex = std::uint32_t;  // Into reads_, and the tag in the stream.
  static constexpr std::uint64_t scale_tag = 1ull << 63;

  struct Table {
    std::shared_ptr<const TableSource> source;
    std::vector<StreamFile> files;  // Empty until the first load.
    std::vector<std::uint64_t> file_bytes;
    ReadLimits limits;
    TableScales scales;
    std::vector<PageIndex> parked;  // Wait for the scales.
    bool reading_scales = false;
    std::vector<TierFile> tier_files;       // Of `source->files`; empty: the tier has no part in this table.
    std::vector<std::int64_t> tier_shares;  // How many bytes of a page are of each file, on average.
    std::vector<bool> resident;             // Pages, as far as the tier was told.
    std::uint32_t loads = 0;
    TableReads reads;
    std::string failure;
  };
  struct PageLoad {
    Load load;
    Table* table = nullptr;
    ReadPlan plan;
    std::span<std::byte> frame;     // Empty when the frame is not addressable.
    std::uint32_t next_read = 0;    // Into plan.reads: not yet pushed.
    std::uint32_t open_reads = 0;   // Pushed, not answered.
    std::uint32_t open_copies = 0;  // Slots that are copied from, or wait for it.
    bool planned = false, failed = false;
    FailureKind reason = FailureKind::internal;
  };
  struct Read {
    PageIndex page = 0;
    std::uint32_t planned = 0;  // Into the page's plan.
    SlotId slot = no_slot;
    std::uint32_t copies_queued = 0;
    FenceId fence{};  // Of the last copy queued.
    bool pushed = false;
    bool bulk = false;  // As it was pushed.
    // What follows is of reads that the tier answers, or was asked for.
    TierPage tier_page{};
    bool waiting = false;                   // For the tier page.
    bool wants_slot = false;                // It waited in vain, and is in slot_queue_.
    bool filled_for_it = false;             // The tier page was read here.
    std::optional<TierFrame> tier_frame{};  // Pinned.
    const std::byte* source = nullptr;      // There.
  };
  struct DroppedSource {
    FenceId fence{};
    TierFrame frame{};
  };
  struct PendingFence {
    FenceId fence{};
    ReadIndex read = 0;
  };

  Table& table_of(TableId table);
  const Table* find_table(TableId table) const;
  std::deque<PageIndex>& queue_of(Urgency urgency) {
    return urgency == Urgency::fault ? fault_queue_ : bulk_queue_;
  }
  void leave_queues(PageIndex index);
  void fail(PageIndex index, FailureKind reason, std::string text);
  void fail_all(FailureKind reason, const char* text);
  void finish_if_over(PageIndex index);
  void verify(PageLoad& page);

  // load_start.cpp: from the queues to the stream.
  bool start();
  bool start_queue(std::deque<PageIndex>& queue);
  bool prepare(PageIndex index);
  bool prepare_files(Table& table);
  bool push_reads(PageIndex index, bool& pushed);
  bool may_push(Urgency urgency, const PlannedRead& read) const;
  ReadIndex new_read(PageIndex index, std::uint32_t planned);
  void push(ReadIndex index);
  std::byte* destination_of(Read& read);
  bool push_scales(TableId id, Table& table);
  void take_scale(const ReadStream::Answer& answer);
  void end_scales(Table& table);

  // load_tier.cpp: reads that the pinned host tier answers.
  enum class TierAnswer : std::uint8_t { taken, full, slot };
  void open_tier(Table& table) const;
  void close_tier(Table& table) const;
  TierAnswer offer_to_tier(PageIndex index, std::uint32_t planned);
  bool may_fill(Urgency urgency) const;
  bool ask_tier(ReadIndex index);
  bool announce(const HostTier::Place& place);
  void copy_from_tier(ReadIndex index, const HostTier::Place& place);
  void take_fill(const ReadStream::Answer& answer);
  void resume_readers();
  bool push_those_without_tier();
  void leave_tier(ReadIndex index);
  void poll_tier(FenceId reached);

  // load_answers.cpp: from the stream's answers to the frame.
  void take(const ReadStream::Answer& answer);
  void fail_read(PageIndex index, const PlannedRead& planned, const ReadStream::Answer& answer);
  void queue_copies();
  bool queue_copies_of(ReadIndex index);
  void retire(FenceId reached);
  void end_copy(ReadIndex index);
  void free_read(ReadIndex index);

  const TierAccess tier_;  // Its memory outlives the stream's reads, as the ring does.
  std::unique_ptr<PinnedRing> ring_;
  std::unique_ptr<ReadStream> stream_;
  std::optional<TierFills> fills_;  // With a tier.
  FrameWriter& writer_;
  const DeviceLimits device_;
  const LoadPipelineOptions options_;
  StreamFiles files_;
  std::unordered_map<TableId, std::unique_ptr<Table>> tables_;
  std::deque<PageLoad> pages_;  // A deque: references stay valid while it grows.
  std::vector<PageIndex> free_pages_;
  std::unordered_map<PageKey, PageIndex> by_key_;
  std::deque<Read> reads_;
  std::vector<ReadIndex> free_reads_;
  std::deque<PageIndex> fault_queue_, bulk_queue_;
  std::deque<ReadIndex> copy_queue_;  // Answered, copies not all queued.
  std::deque<PendingFence> fences_;   // In the order of fences.
  std::deque<ReadIndex> slot_queue_;
  std::set<TierFrame> sources_;  // That the writer knows.
  std::vector<DroppedSource> dropped_sources_;
  std::vector<TierFrame> called_;  // Scratch.
  std::vector<Loaded> ended_;
  std::uint64_t bulk_bytes_pushed_ = 0;
  std::vector<TableId> reading_scales_;
  bool wants_poll_ = false;
};

}  // namespace penstock
