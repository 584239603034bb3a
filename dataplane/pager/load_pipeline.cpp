// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/load_pipeline.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

// Rounds of one poll: cached reads may be answered as fast as they are pushed, and clients wait meanwhile.
constexpr int rounds_max = 4;
constexpr std::size_t answers_max = 64;

ReadLimits read_limits(const TableSource& source, const PinnedRing& ring,
                       const LoadPipelineOptions& options) {
  ReadLimits limits{.slot_bytes = ring.slot_bytes(),
                    .read_bytes_max = options.read_bytes_max,
                    .offset_granule = 1,
                    .memory_granule = 1};
  for (const auto& file : source.files) {
    if (!file->direct().usable) continue;
    limits.offset_granule = std::max(limits.offset_granule, file->direct().offset_granule);
    limits.memory_granule = std::max(limits.memory_granule, file->direct().memory_granule);
  }
  return limits;
}

}  // namespace

LoadPipeline::LoadPipeline(std::unique_ptr<PinnedRing> ring, std::unique_ptr<ReadStream> stream,
                           FrameWriter& writer, const DeviceLimits& device,
                           const LoadPipelineOptions& options, const TierAccess& tier)
    : tier_(tier),
      ring_(std::move(ring)),
      stream_(std::move(stream)),
      writer_(writer),
      device_(device),
      options_(options),
      files_(*stream_) {
  CHECK(options_.fault_requests < options_.requests_max);
  if (!tier_.tier) return;
  fills_.emplace(tier_, *stream_, options_.read_bytes_max);
  CHECK(fills_->reads_of_a_fill() + options_.fault_requests <= options_.requests_max);
}

// stream_ is destroyed before ring_ and waits for its reads; the caller destroys frames after this.
LoadPipeline::~LoadPipeline() = default;

void LoadPipeline::open(TableId id, std::shared_ptr<const TableSource> source) {
  const ReadLimits limits = read_limits(*source, *ring_, options_);
  std::vector<std::uint64_t> file_bytes;
  for (const auto& file : source->files) file_bytes.push_back(file->identity().bytes);
  TableScales scales(source->layout, limits.offset_granule);
  auto table = std::make_unique<Table>(Table{.source = std::move(source),
                                             .files = {},
                                             .file_bytes = std::move(file_bytes),
                                             .limits = limits,
                                             .scales = std::move(scales),
                                             .parked = {},
                                             .tier_files = {},
                                             .tier_shares = {},
                                             .resident = {},
                                             .reads = {},
                                             .failure = {}});
  if (tier_.tier) open_tier(*table);
  const bool added = tables_.emplace(id, std::move(table)).second;
  CHECK(added);
}

void LoadPipeline::close(TableId id) {
  CHECK(!busy(id));
  const auto found = tables_.find(id);
  if (found == tables_.end()) return;
  Table& table = *found->second;
  close_tier(table);
  for (std::size_t file = 0; file < table.files.size(); ++file) files_.release(table.source->files[file]);
  tables_.erase(found);
}

bool LoadPipeline::busy(TableId id) const {
  const Table* table = find_table(id);
  if (table == nullptr) return false;
  return table->loads > 0 || !table->scales.idle() || (fills_ && fills_->busy(id));
}

LoadPipeline::Table& LoadPipeline::table_of(TableId id) {
  const auto found = tables_.find(id);
  CHECK(found != tables_.end());
  return *found->second;
}

const LoadPipeline::Table* LoadPipeline::find_table(TableId id) const {
  const auto found = tables_.find(id);
  return found == tables_.end() ? nullptr : found->second.get();
}

void LoadPipeline::load(const Load& load) {
  const auto known = by_key_.find(load.page);
  if (known != by_key_.end()) {
    PageLoad& page = pages_[known->second];
    CHECK(page.load.generation == load.generation);
    if (load.urgency == Urgency::bulk || page.load.urgency == Urgency::fault) return;
    page.load.urgency = Urgency::fault;
    // Reads that were pushed as bulk stay so; those that were not go first from now on.
    if (std::erase(bulk_queue_, known->second) > 0) fault_queue_.push_back(known->second);
    return;
  }
  PageIndex index = static_cast<PageIndex>(pages_.size());
  if (free_pages_.empty()) {
    pages_.emplace_back();
  } else {
    index = free_pages_.back();
    free_pages_.pop_back();
  }
  PageLoad& page = pages_[index];
  page.load = load;
  page.table = &table_of(load.page.table);
  page.next_read = page.open_reads = page.open_copies = 0;
  page.planned = page.failed = false;
  page.frame = {};
  ++page.table->loads;
  by_key_.emplace(load.page, index);
  queue_of(load.urgency).push_back(index);
}

void LoadPipeline::cancel(const CancelLoad& cancel) {
  const auto known = by_key_.find(cancel.page);
  if (known == by_key_.end() || pages_[known->second].load.generation != cancel.generation) return;
  fail(known->second, FailureKind::cancelled, {});
}

void LoadPipeline::cancel_all() {
  stream_->cancel_all();
  fail_all(FailureKind::cancelled, nullptr);
}

void LoadPipeline::writer_lost() {
  fail_all(FailureKind::device_unhealthy, "the process that fills the device's memory is gone");
  std::deque<PendingFence> lost;
  lost.swap(fences_);
  for (const PendingFence& pending : lost) {
    const PageIndex page = reads_[pending.read].page;
    end_copy(pending.read);
    finish_if_over(page);
  }
  for (const DroppedSource& dropped : dropped_sources_) tier_.tier->let_go(dropped.frame, tier_.user);
  dropped_sources_.clear();
  // Of what was answered and waits for room in the queue, nothing is being copied any more either.
  for (const ReadIndex read : copy_queue_) reads_[read].copies_queued = 0;
}

void LoadPipeline::fail_all(FailureKind reason, const char* text) {
  std::vector<PageIndex> open;
  for (const auto& [key, index] : by_key_) open.push_back(index);
  for (const PageIndex index : open) fail(index, reason, text == nullptr ? "" : text);
}

void LoadPipeline::poll(Nanoseconds now, FenceId reached, std::vector<Loaded>& loaded) {
  std::array<ReadStream::Answer, answers_max> answers;
  wants_poll_ = false;
  retire(reached);
  if (fills_) poll_tier(reached);
  for (int round = 0;; ++round) {
    const std::size_t count = stream_->poll(now, answers);
    for (std::size_t index = 0; index < count; ++index) take(answers[index]);
    if (fills_) resume_readers();
    queue_copies();
    // What was pushed is submitted by the next round's poll.
    const bool pushed = start();
    if (!pushed && count < answers.size()) break;
    if (round == rounds_max) {
      wants_poll_ = true;
      break;
    }
  }
  loaded.insert(loaded.end(), ended_.begin(), ended_.end());
  ended_.clear();
}

void LoadPipeline::leave_queues(PageIndex index) {
  std::erase(fault_queue_, index);
  std::erase(bulk_queue_, index);
  std::erase(pages_[index].table->parked, index);
}

void LoadPipeline::fail(PageIndex index, FailureKind reason, std::string text) {
  PageLoad& page = pages_[index];
  if (page.failed) return;
  page.failed = true;
  page.reason = reason;
  if (!text.empty()) page.table->failure = std::move(text);
  leave_queues(index);
  if (page.open_reads > 0) {
    for (ReadIndex read = 0; read < reads_.size(); ++read) {
      if (reads_[read].page != index) continue;
      if (reads_[read].pushed) stream_->cancel(read);
      if (reads_[read].waiting || reads_[read].wants_slot) leave_tier(read);
    }
  }
  finish_if_over(index);
}

void LoadPipeline::finish_if_over(PageIndex index) {
  PageLoad& page = pages_[index];
  if (page.table == nullptr || page.open_reads > 0 || page.open_copies > 0) return;
  if (!page.failed && (!page.planned || page.next_read < page.plan.reads.size())) return;
  if (!page.failed) verify(page);
  ended_.push_back({.page = page.load.page,
                    .generation = page.load.generation,
                    .ok = !page.failed,
                    .reason = page.failed ? page.reason : FailureKind::internal});
  --page.table->loads;
  page.table = nullptr;
  by_key_.erase(page.load.page);
  free_pages_.push_back(index);
}

// After the last byte has arrived: a file that is still the one that was opened has supplied all of them (R05).
void LoadPipeline::verify(PageLoad& page) {
  const std::vector<std::shared_ptr<CheckpointFile>>& files = page.table->source->files;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    const auto reads_it = [file](const PlannedRead& read) { return read.file == file; };
    if (std::none_of(page.plan.reads.begin(), page.plan.reads.end(), reads_it)) continue;
    Outcome<void> unchanged = files[file]->verify_unchanged();
    if (unchanged) continue;
    page.failed = true;
    page.reason = unchanged.error().kind;
    if (!page.table->tier_files.empty()) tier_.tier->forget(page.table->tier_files[file]);
    page.table->failure = std::move(unchanged.error().message);
    return;
  }
}

bool LoadPipeline::idle() const { return by_key_.empty() && stream_->unanswered() == 0; }

std::string LoadPipeline::waits_for() const {
  for (const Read& read : reads_) {
    if (!read.pushed) continue;
    const PageLoad& page = pages_[read.page];
    const PlannedRead& planned = page.plan.reads[read.planned];
    return fmt::format("a read of {} bytes at {} of checkpoint {}", planned.extent.length,
                       planned.extent.offset, page.table->source->files[planned.file]->identity().id());
  }
  if (std::string fill = fills_ ? fills_->waits_for() : std::string(); !fill.empty()) return fill;
  if (!fences_.empty()) return "a copy into device memory";
  if (!by_key_.empty()) return "pages that wait to be read";
  return stream_->unanswered() > 0 ? "reads of scales" : "";
}

bool LoadPipeline::waits_for_copies_only() const { return !fences_.empty() && stream_->unanswered() == 0; }

TableReads LoadPipeline::reads_of(TableId id) const {
  const Table* table = find_table(id);
  return table == nullptr ? TableReads{} : table->reads;
}

std::string LoadPipeline::failure_of(TableId id) const {
  const Table* table = find_table(id);
  return table == nullptr ? std::string() : table->failure;
}

}  // namespace penstock
