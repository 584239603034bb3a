// SPDX-License-Identifier: Apache-2.0
// LoadPipeline and the pinned host tier: reads that it answers, pages that are read into it, sources of the writer.
#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/pager/load_pipeline.hpp"

namespace penstock {
namespace {

SourceId source_of(TierFrame frame) { return SourceId{static_cast<std::uint32_t>(frame) + 1}; }

}  // namespace

// Not for frames that are read into directly, nor for tables that show little of their files: too much would be read along.
void LoadPipeline::open_tier(Table& table) const {
  const TableSource& source = *table.source;
  const std::uint64_t tier_page = tier_.tier->page_bytes();
  const std::uint64_t granule = std::max(table.limits.offset_granule, table.limits.memory_granule);
  if (device_.frames_are_addressable || tier_page % granule != 0 || table.limits.slot_bytes > tier_page)
    return;
  std::vector<std::uint64_t> shown(source.files.size());
  for (const LayoutPiece& piece : source.layout.pieces()) shown[piece.file] += piece.source.length;
  std::vector<TierFile> files;
  for (std::size_t file = 0; file < source.files.size(); ++file) {
    const std::optional<TierFile> known = tier_.tier->find(source.files[file]->identity());
    if (!known || shown[file] < table.file_bytes[file] / 2) return;
    files.push_back(*known);
    table.tier_shares.push_back(
        static_cast<std::int64_t>(shown[file] / std::max<std::uint32_t>(source.layout.pages(), 1)));
  }
  table.tier_files = std::move(files);
  table.resident.resize(source.layout.pages());
}

void LoadPipeline::close_tier(Table& table) const {
  const auto resident = std::count(table.resident.begin(), table.resident.end(), true);
  for (std::size_t file = 0; file < table.tier_files.size(); ++file) {
    tier_.tier->resident(table.tier_files[file], -resident * table.tier_shares[file]);
  }
}

void LoadPipeline::note_residency(PageKey page, bool resident) {
  const auto found = tables_.find(page.table);
  if (!fills_ || found == tables_.end()) return;
  Table& table = *found->second;
  if (page.index >= table.resident.size() || table.resident[page.index] == resident) return;
  table.resident[page.index] = resident;
  for (std::size_t file = 0; file < table.tier_files.size(); ++file) {
    tier_.tier->resident(table.tier_files[file], (resident ? 1 : -1) * table.tier_shares[file]);
  }
}

void LoadPipeline::distrust(PageKey page) {
  const Table* table = find_table(page.table);
  if (table == nullptr || table->tier_files.empty()) return;
  std::vector<PagePiece> pieces;
  table->source->layout.pieces_of(page.index, pieces);
  const std::uint64_t tier_page = tier_.tier->page_bytes();
  for (const PagePiece& piece : pieces) {
    const TierFile file = table->tier_files[table->source->layout.pieces()[piece.piece].file];
    const std::uint64_t end = piece.source.offset + piece.source.length;
    for (std::uint64_t index = piece.source.offset / tier_page; index * tier_page < end; ++index) {
      tier_.tier->drop({.file = file, .index = static_cast<std::uint32_t>(index)});
    }
  }
}

// taken: the read is the tier's. full: the page stays at the front of its queue. slot: it goes the way without a tier.
LoadPipeline::TierAnswer LoadPipeline::offer_to_tier(PageIndex page_index, std::uint32_t planned_index) {
  PageLoad& page = pages_[page_index];
  const PlannedRead& planned = page.plan.reads[planned_index];
  if (!planned.in_tier_page) return TierAnswer::slot;
  const std::uint64_t tier_page = tier_.tier->page_bytes();
  const TierPage wanted{.file = page.table->tier_files[planned.file],
                        .index = static_cast<std::uint32_t>(planned.extent.offset / tier_page)};
  if (!fills_->waits_for(wanted) && !may_fill(page.load.urgency)) return TierAnswer::full;
  const ReadIndex index = new_read(page_index, planned_index);
  reads_[index].tier_page = wanted;
  if (ask_tier(index)) return TierAnswer::taken;
  free_read(index);
  return TierAnswer::slot;
}

bool LoadPipeline::may_fill(Urgency urgency) const {
  const bool bulk = urgency == Urgency::bulk;
  const std::size_t requests = options_.requests_max - (bulk ? options_.fault_requests : 0);
  if (stream_->unanswered() + fills_->reads_to_come() + fills_->reads_of_a_fill() > requests) return false;
  const std::uint64_t ahead = bulk_bytes_pushed_ + fills_->bulk_bytes();
  return !bulk || ahead == 0 || ahead + tier_.tier->page_bytes() <= options_.bulk_bytes_ahead;
}

// False: not through the tier.
bool LoadPipeline::ask_tier(ReadIndex index) {
  Read& read = reads_[index];
  PageLoad& page = pages_[read.page];
  if (!fills_->waits_for(read.tier_page)) {
    const HostTier::Place place = tier_.tier->ask(tier_.user, read.tier_page);
    if (place.way == TierBook::Way::pass) return false;
    if (place.way == TierBook::Way::held) {
      if (!announce(place)) return false;
      copy_from_tier(index, place);
      return true;
    }
    const std::uint32_t file = page.plan.reads[read.planned].file;
    fills_->open(read.tier_page,
                 {.table = page.load.page.table,
                  .file = page.table->files[file],
                  .checkpoint = page.table->source->files[file]},
                 place, page.load.urgency);
  }
  read.waiting = true;
  ++page.open_reads;
  fills_->wait(read.tier_page, index);
  return true;
}

// The writer knows the frame's memory. False, and the frame is unpinned, when no descriptor is left to tell it.
bool LoadPipeline::announce(const HostTier::Place& place) {
  if (sources_.contains(place.frame)) return true;
  const Result<> added = writer_.add_source(source_of(place.frame), place.memory, place.fd);
  // A lost writer is found out by the copy.
  if (!added && added.error().code == Errc::exhausted) {
    tier_.tier->unpin(place.frame);
    return false;
  }
  if (added) {
    sources_.insert(place.frame);
    // Room for the day when the tier wants all of them back.
    called_.reserve(sources_.size());
    dropped_sources_.reserve(sources_.size());
  }
  if (!added) tier_.tier->unpin(place.frame);
  return added.has_value();
}

void LoadPipeline::copy_from_tier(ReadIndex index, const HostTier::Place& place) {
  Read& read = reads_[index];
  PageLoad& page = pages_[read.page];
  const PlannedRead& planned = page.plan.reads[read.planned];
  read.tier_frame = place.frame;
  read.source = place.memory.data() + planned.extent.offset % tier_.tier->page_bytes();
  ++page.open_copies;
  copy_queue_.push_back(index);
  tier_.tier->served(read.tier_page.file, planned.needed_bytes,
                     read.filled_for_it ? TierBook::Served::fill : TierBook::Served::hit);
  if (!read.filled_for_it) page.table->reads.tier_bytes += planned.needed_bytes;
}

void LoadPipeline::take_fill(const ReadStream::Answer& answer) {
  TableReads& reads = table_of(fills_->take(answer)).reads;
  (answer.path == ReadPath::direct ? reads.direct_bytes : reads.cached_bytes) += answer.bytes;
}

// Those whose tier page is there now, or won't come.
void LoadPipeline::resume_readers() {
  for (const TierFills::Over& over : fills_->take_over()) {
    for (const ReadIndex index : over.readers) {
      Read& read = reads_[index];
      if (!read.waiting) continue;  // Its page has failed meanwhile.
      const PageIndex page = read.page;
      read.waiting = false;
      read.filled_for_it = over.filled_here;
      // It counts as open until it is somewhere else.
      if (over.failure) {
        fail(page, over.failure->kind, over.failure->message);
        free_read(index);
      } else if (!ask_tier(index)) {
        read.wants_slot = true;
        slot_queue_.push_back(index);
        continue;
      }
      --pages_[page].open_reads;
      finish_if_over(page);
    }
  }
}

bool LoadPipeline::push_those_without_tier() {
  bool pushed = false;
  while (!slot_queue_.empty()) {
    const ReadIndex index = slot_queue_.front();
    const PageLoad& page = pages_[reads_[index].page];
    if (!may_push(page.load.urgency, page.plan.reads[reads_[index].planned])) break;
    slot_queue_.pop_front();
    reads_[index].wants_slot = false;
    push(index);
    pushed = true;
  }
  return pushed;
}

// A read of a failed page that nothing was done for yet.
void LoadPipeline::leave_tier(ReadIndex index) {
  Read& read = reads_[index];
  if (read.waiting) fills_->leave(read.tier_page, index);
  if (read.wants_slot) std::erase(slot_queue_, index);
  --pages_[read.page].open_reads;
  free_read(index);
}

// What the tier says of pages that others fill, and what it wants back.
void LoadPipeline::poll_tier(FenceId reached) {
  if (tier_.tier->collect(tier_.user)) {
    tier_.tier->take_calls(tier_.user, called_);
    for (const TierFrame frame : called_) {
      const FenceId fence = sources_.erase(frame) > 0 ? writer_.drop_source(source_of(frame)) : FenceId{};
      dropped_sources_.push_back({.fence = fence, .frame = frame});
    }
    writer_.flush();
    fills_->ask_again();
    resume_readers();
  }
  std::erase_if(dropped_sources_, [&](const DroppedSource& dropped) {
    if (dropped.fence > reached) return false;
    tier_.tier->let_go(dropped.frame, tier_.user);
    return true;
  });
}

}  // namespace penstock
