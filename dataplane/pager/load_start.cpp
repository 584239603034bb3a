// SPDX-License-Identifier: Apache-2.0
// LoadPipeline, first half: from queued pages to reads in the stream.
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/pager/load_pipeline.hpp"

namespace penstock {

// True when there is more to do at once: reads to submit, or scales to ask for.
bool LoadPipeline::start() {
  bool pushed = false;
  for (std::size_t at = 0; at < reading_scales_.size();) {
    Table& table = table_of(reading_scales_[at]);
    pushed |= push_scales(reading_scales_[at], table);
    if (table.scales.idle() && (table.scales.ready() || table.scales.failure())) {
      reading_scales_.erase(reading_scales_.begin() + static_cast<std::ptrdiff_t>(at));
      end_scales(table);
    } else {
      ++at;
    }
  }
  const std::size_t before = reading_scales_.size();
  pushed |= push_those_without_tier();
  pushed |= start_queue(fault_queue_);
  pushed |= start_queue(bulk_queue_);
  return pushed || reading_scales_.size() > before;
}

bool LoadPipeline::start_queue(std::deque<PageIndex>& queue) {
  bool pushed = false;
  while (!queue.empty()) {
    const PageIndex index = queue.front();
    if (!prepare(index)) continue;  // It has left the queue.
    if (!push_reads(index, pushed)) return pushed;
    queue.pop_front();
    finish_if_over(index);  // A page of holes has nothing to read.
  }
  return pushed;
}

// False when the page has left its queue: it failed, or waits for its table's scales.
bool LoadPipeline::prepare(PageIndex index) {
  PageLoad& page = pages_[index];
  if (page.planned) return true;
  Table& table = *page.table;
  if (!prepare_files(table)) {
    fail(index, FailureKind::exhausted, "no more files can be read at once");
    return false;
  }
  if (!table.scales.ready()) {
    leave_queues(index);
    table.parked.push_back(index);
    if (!table.reading_scales) {
      if (table.scales.failure()) table.scales.start_over();
      table.reading_scales = true;
      reading_scales_.push_back(page.load.page.table);
    }
    return false;
  }
  if (device_.frames_are_addressable) page.frame = writer_.address(page.load.frame);
  page.plan.clear();
  plan_page(table.source->layout, page.load.page.index, table.file_bytes, table.limits, !page.frame.empty(),
            page.plan);
  if (!table.tier_files.empty()) cut_at_tier_pages(table.source->layout, tier_.tier->page_bytes(), page.plan);
  page.planned = true;
  return true;
}

bool LoadPipeline::prepare_files(Table& table) {
  while (table.files.size() < table.source->files.size()) {
    const Result<StreamFile> file = files_.acquire(table.source->files[table.files.size()]);
    if (!file) return false;
    table.files.push_back(*file);
  }
  return true;
}

// False when there was no room for the rest; the page stays at the front of its queue.
bool LoadPipeline::push_reads(PageIndex index, bool& pushed) {
  PageLoad& page = pages_[index];
  for (; page.next_read < page.plan.reads.size(); ++page.next_read) {
    const TierAnswer answer = offer_to_tier(index, page.next_read);
    if (answer == TierAnswer::full) return false;
    if (answer == TierAnswer::slot) {
      if (!may_push(page.load.urgency, page.plan.reads[page.next_read])) return false;
      ++page.open_reads;
      push(new_read(index, page.next_read));
    }
    pushed = true;
  }
  return true;
}

bool LoadPipeline::may_push(Urgency urgency, const PlannedRead& read) const {
  const bool bulk = urgency == Urgency::bulk;
  const std::size_t requests = options_.requests_max - (bulk ? options_.fault_requests : 0);
  if (stream_->unanswered() + (fills_ ? fills_->reads_to_come() : 0) >= requests) return false;
  // A quarter of the ring is kept for pages that somebody waits for.
  if (!read.into_frame && ring_->free_slots() <= (bulk ? ring_->slots() / 4 : 0)) return false;
  return !bulk || bulk_bytes_pushed_ == 0 ||
         bulk_bytes_pushed_ + read.extent.length <= options_.bulk_bytes_ahead;
}

LoadPipeline::ReadIndex LoadPipeline::new_read(PageIndex page, std::uint32_t planned) {
  ReadIndex index = static_cast<ReadIndex>(reads_.size());
  if (free_reads_.empty()) {
    reads_.emplace_back();
  } else {
    index = free_reads_.back();
    free_reads_.pop_back();
  }
  reads_[index] = {};
  reads_[index].page = page;
  reads_[index].planned = planned;
  return index;
}

// Of a read in its plan: into the frame, or into a slot that it takes.
std::byte* LoadPipeline::destination_of(Read& read) {
  PageLoad& page = pages_[read.page];
  const PlannedRead& planned = page.plan.reads[read.planned];
  if (planned.into_frame) {
    CHECK(planned.frame_offset + planned.extent.length <= page.frame.size());
    return page.frame.data() + planned.frame_offset;
  }
  const std::optional<SlotId> slot = ring_->take();
  CHECK(slot && planned.extent.length <= ring_->slot_bytes());
  read.slot = *slot;
  return ring_->address(*slot);
}

// REQUIRES: may_push, and the page counts it as open.
void LoadPipeline::push(ReadIndex index) {
  Read& read = reads_[index];
  const PageLoad& page = pages_[read.page];
  const PlannedRead& planned = page.plan.reads[read.planned];
  std::byte* const destination = destination_of(read);
  read.pushed = true;
  read.bulk = page.load.urgency == Urgency::bulk;
  if (read.bulk) bulk_bytes_pushed_ += planned.extent.length;
  if (planned.in_tier_page) {
    tier_.tier->served(page.table->tier_files[planned.file], planned.needed_bytes, TierBook::Served::pass);
  }
  stream_->push({.file = page.table->files[planned.file],
                 .extent = planned.extent,
                 .needed_bytes = planned.needed_bytes,
                 .destination = destination,
                 .slot = read.slot,
                 .urgency = page.load.urgency,
                 .tag = index});
}

bool LoadPipeline::push_scales(TableId id, Table& table) {
  bool pushed = false;
  while (stream_->unanswered() < options_.requests_max) {
    const std::optional<TableScales::Read> read = table.scales.next();
    if (!read) break;
    stream_->push({.file = table.files[read->file],
                   .extent = read->extent,
                   .needed_bytes = read->needed_bytes,
                   .destination = read->destination,
                   .slot = no_slot,
                   .urgency = Urgency::fault,
                   .tag = scale_tag | std::uint64_t{raw(id)} << 16 | read->lane});
    pushed = true;
  }
  return pushed;
}

void LoadPipeline::take_scale(const ReadStream::Answer& answer) {
  const TableId id{static_cast<std::uint32_t>((answer.tag & ~scale_tag) >> 16)};
  const std::uint32_t lane = answer.tag & 0xffff;
  Table& table = table_of(id);
  if (answer.ok) {
    table.scales.answered(lane);
  } else {
    table.scales.failed(lane, answer.kind);
    table.failure = "a scale could not be read";
  }
}

// The scales are all there, or can't be had: the pages that waited go on, or fail.
void LoadPipeline::end_scales(Table& table) {
  table.reading_scales = false;
  const std::vector<PageIndex> parked = std::exchange(table.parked, {});
  for (const PageIndex index : parked) {
    if (table.scales.failure()) {
      fail(index, *table.scales.failure(), {});
    } else {
      queue_of(pages_[index].load.urgency).push_back(index);
    }
  }
}

}  // namespace penstock
