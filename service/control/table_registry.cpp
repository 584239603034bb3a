// SPDX-License-Identifier: Apache-2.0
#include "service/control/table_registry.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

std::uint64_t alignment_of(const TensorEntry& tensor, const DeviceLimits& limits) {
  return std::max<std::uint64_t>(dtype_alignment(tensor.dtype), limits.tensor_alignment);
}

std::string file_key(const Checkpoint& checkpoint, const DeviceLink& device, TableLayout layout) {
  return fmt::format("file {} {} {}", checkpoint.id, device.description().id, static_cast<int>(layout));
}

std::vector<std::uint64_t> offsets_of(const PageLayout& layout) {
  std::vector<std::uint64_t> offsets;
  offsets.reserve(layout.pieces().size());
  for (const LayoutPiece& piece : layout.pieces()) offsets.push_back(piece.table_offset);
  return offsets;
}

Outcome<std::uint32_t> count_pages(std::uint64_t bytes, std::uint64_t page_bytes) {
  const std::uint64_t pages = divide_up(bytes, page_bytes);
  if (pages > std::numeric_limits<std::uint32_t>::max() / 2) {
    return fail(FailureKind::never_fits, fmt::format("{} bytes are more pages than a table can have", bytes));
  }
  return static_cast<std::uint32_t>(pages);
}

}  // namespace

std::uint64_t SharedTable::resident_bytes() const {
  std::uint64_t resident = 0;
  const std::uint64_t page_bytes = device->description().limits.frame_bytes;
  for (std::uint32_t page = 0; page < pages; ++page) {
    const auto residency = static_cast<Residency>(words->load(page) >> 62);
    if (residency == Residency::resident || residency == Residency::evicting) resident += page_bytes;
  }
  return resident;
}

TableLayout choose_layout(const CheckpointIndex& index, const DeviceLimits& limits) {
  const bool aligned = std::ranges::all_of(index.tensors(), [&](const TensorEntry& tensor) {
    return tensor.extent.length == 0 || tensor.extent.offset % alignment_of(tensor, limits) == 0;
  });
  return aligned ? TableLayout::identity : TableLayout::scattered;
}

Outcome<std::shared_ptr<SharedTable>> TableRegistry::file_table(const std::shared_ptr<Checkpoint>& checkpoint,
                                                                DeviceLink& device, TableLayout layout) {
  const DeviceLimits& limits = device.description().limits;
  if (layout == TableLayout::automatic) layout = choose_layout(*checkpoint->index, limits);
  if (layout == TableLayout::shifted) {
    return fail(FailureKind::unsupported,
                fmt::format("device {} has no shifted layout", device.description().id),
                "ask for the automatic layout");
  }
  const std::string key = file_key(*checkpoint, device, layout);
  if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second;

  SharedTable table;
  table.layout = layout;
  table.key = key;
  table.device = &device;
  table.checkpoints = {checkpoint};
  TableSource source{.layout = PageLayout::identity(checkpoint->identity().bytes, limits.frame_bytes),
                     .files = {checkpoint->file}};
  if (layout == TableLayout::scattered) {
    std::uint64_t alignment = limits.tensor_alignment;
    for (const TensorEntry& tensor : checkpoint->index->tensors())
      alignment = std::max(alignment, alignment_of(tensor, limits));
    source.layout = PageLayout::scattered(*checkpoint->index, alignment, limits.frame_bytes);
    table.tensor_offsets = offsets_of(source.layout);
  }
  table.bytes = source.layout.table_bytes();
  table.source = std::make_shared<const TableSource>(std::move(source));
  return open(std::move(table), SessionId{}, TableId{});
}

Outcome<std::shared_ptr<SharedTable>> TableRegistry::assembled_table(
    std::string key, std::vector<LayoutPiece> pieces, std::vector<std::shared_ptr<Checkpoint>> checkpoints,
    DeviceLink& device) {
  key = "assembled " + key;
  if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second;
  std::vector<std::uint64_t> file_bytes;
  std::vector<std::shared_ptr<CheckpointFile>> files;
  for (const auto& checkpoint : checkpoints) {
    file_bytes.push_back(checkpoint->identity().bytes);
    files.push_back(checkpoint->file);
  }
  auto layout = PageLayout::assembled(std::move(pieces), file_bytes, device.description().limits.frame_bytes);
  if (!layout) return tl::unexpected(layout.error());

  SharedTable table;
  table.kind = TableKind::assembled;
  table.layout = TableLayout::scattered;
  table.key = std::move(key);
  table.device = &device;
  table.bytes = layout->table_bytes();
  table.source = std::make_shared<const TableSource>(
      TableSource{.layout = std::move(*layout), .files = std::move(files)});
  table.checkpoints = std::move(checkpoints);
  return open(std::move(table), SessionId{}, TableId{});
}

Outcome<std::shared_ptr<SharedTable>> TableRegistry::anonymous_table(std::uint64_t bytes, DeviceLink& device,
                                                                     SessionId owner) {
  SharedTable table;
  table.kind = TableKind::anonymous;
  table.device = &device;
  table.bytes = bytes;
  return open(std::move(table), owner, TableId{});
}

Outcome<std::shared_ptr<SharedTable>> TableRegistry::overlay_table(const SharedTable& origin,
                                                                   SessionId owner) {
  SharedTable table;
  table.kind = TableKind::overlay;
  table.layout = origin.layout;
  table.device = origin.device;
  table.bytes = origin.bytes;
  return open(std::move(table), owner, origin.id);
}

Outcome<std::shared_ptr<SharedTable>> TableRegistry::open(SharedTable table, SessionId owner,
                                                          TableId origin) {
  const auto pages = count_pages(table.bytes, table.device->description().limits.frame_bytes);
  if (!pages) return tl::unexpected(pages.error());
  auto words = PageWords::create(std::max<std::uint32_t>(*pages, 1));
  if (!words) {
    return fail(FailureKind::exhausted, fmt::format("no memory for the words of {} pages", *pages),
                "raise LimitNOFILE= or the memory limit of the service");
  }
  table.id = TableId{++last_id_};
  table.owner = owner;
  table.pages = *pages;
  table.words = std::move(*words);
  const auto shared = std::make_shared<SharedTable>(std::move(table));
  tables_.emplace(shared->id, shared);
  if (!shared->key.empty()) by_key_.emplace(shared->key, shared);
  shared->device->send(mail::OpenTable{.table = shared->id,
                                       .kind = shared->kind,
                                       .pages = shared->pages,
                                       .source = shared->source,
                                       .owner = owner,
                                       .origin = origin,
                                       .words = shared->words});
  return shared;
}

void TableRegistry::attach(SharedTable& table, SessionId session, TableNumber number, RevokeMode mode,
                           std::shared_ptr<const PinWords> pins) {
  ++table.attached;
  table.device->send(mail::AttachTable{
      .session = session, .table = table.id, .number = number, .mode = mode, .pins = std::move(pins)});
}

void TableRegistry::detach(SharedTable& table, SessionId session) {
  CHECK(table.attached > 0);
  --table.attached;
  table.last_used = ++uses_;
  table.device->send(mail::DetachTable{.session = session, .table = table.id});
}

void TableRegistry::close(const std::shared_ptr<SharedTable>& table) {
  CHECK(table->attached == 0);
  tables_.erase(table->id);
  if (!table->key.empty()) by_key_.erase(table->key);
  table->device->send(mail::CloseTable{.request = RequestId{}, .table = table->id});
}

std::vector<std::shared_ptr<SharedTable>> TableRegistry::surplus() const {
  std::vector<std::shared_ptr<SharedTable>> idle;
  for (const auto& [id, table] : tables_) {
    if (table->kind == TableKind::assembled && table->attached == 0) idle.push_back(table);
  }
  if (idle.size() <= idle_assembled_max) return {};
  std::ranges::sort(idle, {}, &SharedTable::last_used);
  idle.resize(idle.size() - idle_assembled_max);
  return idle;
}

std::shared_ptr<SharedTable> TableRegistry::find(TableId id) const {
  const auto found = tables_.find(id);
  return found == tables_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<SharedTable>> TableRegistry::of(const Checkpoint& checkpoint) const {
  std::vector<std::shared_ptr<SharedTable>> found;
  for (const auto& [id, table] : tables_) {
    const bool uses =
        std::ranges::any_of(table->checkpoints, [&](const auto& one) { return one->id == checkpoint.id; });
    if (uses) found.push_back(table);
  }
  return found;
}

}  // namespace penstock
