// SPDX-License-Identifier: Apache-2.0
// LoadPipeline, second half: from the stream's answers to a filled frame.
#include <algorithm>
#include <cstring>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/pager/load_pipeline.hpp"

namespace penstock {

void LoadPipeline::take(const ReadStream::Answer& answer) {
  if ((answer.tag & scale_tag) != 0) return take_scale(answer);
  if ((answer.tag & TierFills::tag_bit) != 0) return take_fill(answer);
  const ReadIndex index = static_cast<ReadIndex>(answer.tag);
  Read& read = reads_[index];
  CHECK(read.pushed);
  read.pushed = false;
  const PageIndex page_index = read.page;
  PageLoad& page = pages_[page_index];
  const PlannedRead& planned = page.plan.reads[read.planned];
  --page.open_reads;
  if (read.bulk) bulk_bytes_pushed_ -= planned.extent.length;
  TableReads& reads = page.table->reads;
  (answer.path == ReadPath::direct ? reads.direct_bytes : reads.cached_bytes) += answer.bytes;

  if (!answer.ok) fail_read(page_index, planned, answer);
  if (page.failed || planned.into_frame) {
    // A direct read is rounded up: what lies behind the bytes that belong here must stay zero.
    if (!page.failed && planned.needed_bytes < planned.extent.length) {
      std::memset(page.frame.data() + planned.frame_offset + planned.needed_bytes, 0,
                  planned.extent.length - planned.needed_bytes);
    }
    free_read(index);
    finish_if_over(page_index);
    return;
  }
  ++page.open_copies;
  copy_queue_.push_back(index);
}

void LoadPipeline::fail_read(PageIndex index, const PlannedRead& planned, const ReadStream::Answer& answer) {
  PageLoad& page = pages_[index];
  if (page.failed) return;
  const CheckpointFile& file = *page.table->source->files[planned.file];
  Failure failure = describe(answer, file.identity().bytes);
  // A file that shrank says more than "it ended early".
  if (answer.kind != FailureKind::cancelled) {
    Outcome<void> unchanged = file.verify_unchanged();
    if (!unchanged) failure = std::move(unchanged.error());
  }
  // The caller finishes the page; keep it open until then.
  ++page.open_reads;
  fail(index, failure.kind, std::move(failure.message));
  --page.open_reads;
}

void LoadPipeline::queue_copies() {
  if (copy_queue_.empty()) return;
  while (!copy_queue_.empty() && queue_copies_of(copy_queue_.front())) copy_queue_.pop_front();
  writer_.flush();
}

// False when the writer's queue is full: it goes on when fences have been reached.
bool LoadPipeline::queue_copies_of(ReadIndex index) {
  Read& read = reads_[index];
  const PageIndex page_index = read.page;
  PageLoad& page = pages_[page_index];
  const PlannedRead& planned = page.plan.reads[read.planned];
  const std::byte* slot = read.tier_frame ? read.source : ring_->address(read.slot);
  while (!page.failed && read.copies_queued < planned.copy_count) {
    const SlotCopy& copy = page.plan.copies[planned.first_copy + read.copies_queued];
    const LayoutPiece& piece = page.table->source->layout.pieces()[copy.piece];
    const Result<FenceId> fence = writer_.copy(
        page.load.frame, copy.frame_offset, {slot + copy.slot_offset, copy.slot_bytes},
        {.stored = piece.stored, .wanted = piece.wanted, .scale = page.table->scales.of(copy.piece)});
    if (fence) {
      read.fence = *fence;
      ++read.copies_queued;
    } else if (fence.error().code == Errc::busy) {
      return false;
    } else {
      fail(page_index, FailureKind::device_unhealthy, fence.error().operation);
    }
  }
  if (read.copies_queued > 0) {
    fences_.push_back({.fence = read.fence, .read = index});
  } else {
    end_copy(index);
    finish_if_over(page_index);
  }
  return true;
}

void LoadPipeline::retire(FenceId reached) {
  while (!fences_.empty() && fences_.front().fence <= reached) {
    const ReadIndex index = fences_.front().read;
    fences_.pop_front();
    const PageIndex page = reads_[index].page;
    // If one copy to its frame fails, so does the last.
    const std::optional<Error> failed = writer_.take_copy_failure(reads_[index].fence);
    if (failed) fail(page, FailureKind::device_unhealthy, failed->operation);
    end_copy(index);
    finish_if_over(page);
  }
}

// Nothing reads the slot any more.
void LoadPipeline::end_copy(ReadIndex index) {
  --pages_[reads_[index].page].open_copies;
  free_read(index);
}

void LoadPipeline::free_read(ReadIndex index) {
  Read& read = reads_[index];
  if (read.slot != no_slot) ring_->give_back(read.slot);
  if (read.tier_frame) tier_.tier->unpin(*read.tier_frame);
  read = {};
  free_reads_.push_back(index);
}

}  // namespace penstock
