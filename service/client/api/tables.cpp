// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "service/client/api/handles.hpp"
#include "service/protocol/manifest.hpp"

namespace penstock {
namespace {

// Of the table in host memory that is copied: as the Python package opens it, since one content has one set of options.
TableRecipe recipe_of_source(const wire::Device& host) {
  TableRecipe recipe;
  recipe.device = host.id;
  recipe.message.mode = RevokeMode::agent;
  recipe.message.overlay = true;
  recipe.copy_on_write = true;
  return recipe;
}

// Where the user's name is no device of the service's. nullopt: that of a GPU it is not, either.
Outcome<std::optional<PlainGpu>> find_plain_gpu(pst_client* client, const char* device) {
  const auto name = gpu_name(device == nullptr ? "" : device);
  if (!name) return std::optional<PlainGpu>();
  auto gpu = client->client->plain_gpu(*name);
  if (!gpu) return tl::unexpected(std::move(gpu.error()));
  return std::optional(std::move(*gpu));
}

Outcome<TableRecipe> start_copy(pst_client* client, TableKind kind, const pst_table_options& given,
                                const Failure& no_device) {
  const auto gpu = find_plain_gpu(client, given.device);
  if (!gpu) return tl::unexpected(gpu.error());
  if (!*gpu) return tl::unexpected(no_device);
  if (kind == TableKind::anonymous || given.copy_on_write != 0) {
    return fail(FailureKind::unsupported,
                kind == TableKind::anonymous
                    ? "a GPU whose memory can't be shared has no private tables: allocate there yourself"
                    : "copy_on_write is for host memory");
  }
  const auto host = client->client->device("host");
  if (!host) {
    return fail(FailureKind::unsupported,
                "the service has no host device, whose pages could be copied to the GPU",
                "[device.host] enabled = \"on\" in the service's configuration");
  }
  TableRecipe recipe = recipe_of_source(host->facts);
  recipe.message.kind = kind;
  recipe.copied_to = **gpu;
  return recipe;
}

// Device, mode and copies; the rest is the kind's own.
Outcome<TableRecipe> start_recipe(pst_client* client, TableKind kind, const pst_table_options* options) {
  const pst_table_options given = copy_in(options);
  if (given.mode > PST_COOPERATIVE)
    return fail(FailureKind::invalid_argument, fmt::format("{} is no revoke mode", given.mode));
  const auto connected =
      client->client->connected(monotonic_now() + client->client->patience_beyond(Nanoseconds(0)));
  if (!connected) return tl::unexpected(connected.error());
  const auto device = client->client->device(given.device);
  if (!device) return start_copy(client, kind, given, device.error());
  const bool on_gpu = device->facts.kind != wire::DeviceKind::host;
  if (on_gpu && given.copy_on_write != 0)
    return fail(FailureKind::unsupported, "copy_on_write is for host memory");
  TableRecipe recipe;
  recipe.device = device->facts.id;
  recipe.message.kind = kind;
  // No thread of ours may unmap what the program's queues may be reading.
  recipe.message.mode = on_gpu || given.mode == PST_COOPERATIVE ? RevokeMode::cooperative : RevokeMode::agent;
  recipe.message.overlay = kind != TableKind::anonymous;
  recipe.copy_on_write = given.copy_on_write != 0;
  return recipe;
}

pst_status open_table(pst_client* client, Outcome<TableRecipe> recipe, pst_table** table) {
  if (!recipe) return report(client, recipe.error());
  const std::optional<PlainGpu> gpu = recipe->copied_to;
  const auto open = client->client->open(std::move(*recipe));
  if (!open) return report(client, open.error());
  std::shared_ptr<TableCopy> copy;
  if (gpu) {
    client->client->run_closing();  // Whole copies that are over make room.
    auto made = client->client->copy(**open, *gpu);
    if (!made) {
      client->client->close(**open);
      return report(client, made.error());
    }
    copy = std::move(*made);
  }
  *table = client->tables.add(
      std::make_unique<pst_table>(pst_table{(*open)->table.get(), client, *open, std::move(copy)}));
  return PST_DONE;
}

Outcome<LayoutPiece> piece_of(const pst_manifest_entry& entry, std::uint64_t position, std::uint32_t files) {
  const auto refuse = [&](const char* why) {
    return fail(FailureKind::invalid_argument, fmt::format("manifest entry {}: {}", position, why));
  };
  if (entry.stored_dtype == nullptr || entry.wanted_dtype == nullptr) return refuse("its dtypes are missing");
  const auto stored = dtype_from_name(entry.stored_dtype);
  const auto wanted = dtype_from_name(entry.wanted_dtype);
  if (!stored || !wanted) return refuse("an unknown dtype");
  if (entry.checkpoint >= files) return refuse("it names a checkpoint that was not given");
  constexpr std::uint64_t bytes_max = std::numeric_limits<std::uint64_t>::max() / 64;
  if (entry.file_bytes > bytes_max) return refuse("it is too long");
  const std::uint64_t bits = entry.file_bytes * 8;
  if (bits % dtype_bits(*stored) != 0) return refuse("its bytes are no whole number of elements");
  const std::uint64_t wanted_bits = bits / dtype_bits(*stored) * dtype_bits(*wanted);
  LayoutPiece piece{.table_offset = entry.table_offset,
                    .table_bytes = wanted_bits / 8,
                    .source = {.offset = entry.file_offset, .length = entry.file_bytes},
                    .file = entry.checkpoint,
                    .stored = *stored,
                    .wanted = *wanted};
  if (entry.scale_offset != UINT64_MAX)
    piece.scale_source = Extent{.offset = entry.scale_offset, .length = 4};
  return piece;
}

Outcome<std::vector<std::byte>> manifest_of(const pst_manifest_entry* entries, std::uint64_t count,
                                            std::uint32_t files) {
  Manifest manifest{.files = files, .pieces = {}};
  manifest.pieces.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto piece = piece_of(entries[i], i, files);
    if (!piece) return tl::unexpected(std::move(piece.error()));
    manifest.pieces.push_back(*piece);
  }
  // The canonical form is sorted; callers list tensors in an order of their own.
  std::stable_sort(
      manifest.pieces.begin(), manifest.pieces.end(),
      [](const LayoutPiece& a, const LayoutPiece& b) { return a.table_offset < b.table_offset; });
  auto bytes = build_manifest(manifest);
  if (!bytes)
    return fail(FailureKind::invalid_argument,
                fmt::format("the manifest can't be used: {}", bytes.error().operation));
  return std::move(*bytes);
}

}  // namespace
}  // namespace penstock

using namespace penstock;

pst_status pst_table_open(pst_checkpoint* checkpoint, const pst_table_options* options, pst_table** table) {
  if (const pst_status status = check_handle(owner_of(checkpoint), table != nullptr); status != PST_DONE)
    return status;
  *table = nullptr;
  auto recipe = start_recipe(checkpoint->owner, TableKind::file, options);
  if (recipe) recipe->checkpoints.push_back(checkpoint->checkpoint);
  return open_table(checkpoint->owner, std::move(recipe), table);
}

pst_status pst_table_assemble(pst_client* client, pst_checkpoint* const* checkpoints,
                              uint32_t checkpoint_count, const pst_manifest_entry* entries,
                              uint64_t entry_count, const pst_table_options* options, pst_table** table) {
  const bool complete = checkpoints != nullptr && entries != nullptr && table != nullptr;
  if (const pst_status status = check_handle(client, complete); status != PST_DONE) return status;
  *table = nullptr;
  if (checkpoint_count == 0 || checkpoint_count > PSTW_TABLE_CHECKPOINTS_MAX || entry_count == 0 ||
      entry_count > PSTW_PIECES_MAX) {
    return report_invalid(client, "an assembled table has 1 to 16 checkpoints and 1 to 4194304 entries");
  }
  auto recipe = start_recipe(client, TableKind::assembled, options);
  if (!recipe) return report(client, recipe.error());
  for (std::uint32_t i = 0; i < checkpoint_count; ++i) {
    if (owner_of(checkpoints[i]) != client) return report_invalid(client, "a checkpoint of another client");
    recipe->checkpoints.push_back(checkpoints[i]->checkpoint);
  }
  auto manifest = manifest_of(entries, entry_count, checkpoint_count);
  if (!manifest) return report(client, manifest.error());
  recipe->manifest = std::move(*manifest);
  recipe->message.manifest_bytes = recipe->manifest.size();
  return open_table(client, std::move(recipe), table);
}

pst_status pst_table_anonymous(pst_client* client, uint64_t bytes, const pst_table_options* options,
                               pst_table** table) {
  if (const pst_status status = check_handle(client, table != nullptr); status != PST_DONE) return status;
  *table = nullptr;
  if (bytes == 0) return report_invalid(client, "a table of 0 bytes");
  auto recipe = start_recipe(client, TableKind::anonymous, options);
  if (recipe) recipe->message.bytes = bytes;
  return open_table(client, std::move(recipe), table);
}

void pst_table_close(pst_table* table) {
  if (check_handle(owner_of(table)) != PST_DONE) return;
  pst_client* const owner = table->owner;
  if (const auto handle = owner->tables.take(table)) {
    if (handle->copy) owner->client->close(std::move(handle->copy));
    owner->client->close(*handle->open);
  }
}

pst_status pst_table_describe(const pst_table* table, pst_table_info* info) {
  if (const pst_status status = check_handle(owner_of(table), info != nullptr); status != PST_DONE)
    return status;
  const Table& found = *table->table;
  const TableShape& shape = found.shape();
  pst_table_info out{};
  out.id = found.paging().look([&] { return found.attachment().number; });
  out.kind = static_cast<uint32_t>(shape.kind);
  out.pages = shape.pages;
  out.address = table->copy ? table->copy->address() : found.address();
  out.bytes = shape.bytes;
  out.page_bytes = shape.page_bytes;
  return copy_out(out, info) ? PST_DONE : report_invalid(table->owner, "a struct without its size");
}

pst_status pst_table_tensor(const pst_table* table, uint32_t index, uint64_t* offset, uint64_t* bytes) {
  const bool complete = offset != nullptr && bytes != nullptr;
  if (const pst_status status = check_handle(owner_of(table), complete); status != PST_DONE) return status;
  const TableShape& shape = table->table->shape();
  if (shape.kind != TableKind::file) return report_invalid(table->owner, "only file tables have tensors");
  const auto& tensors = table->open->recipe.checkpoints.front()->index().tensors;
  if (index >= tensors.size()) {
    return report(table->owner,
                  Failure{FailureKind::not_found, fmt::format("there are {} tensors", tensors.size()), ""});
  }
  const Extent& extent = tensors[index].extent;
  const auto& offsets = table->open->tensor_offsets;
  std::uint64_t at = extent.offset + shape.shift_bytes;
  if (shape.layout == wire::Layout::scattered) at = index < offsets.size() ? offsets[index] : shape.bytes + 1;
  if (at > shape.bytes || extent.length > shape.bytes - at) {
    return report(table->owner,
                  Failure{FailureKind::protocol_violation, "the tensor lies outside of its table", ""});
  }
  *offset = at;
  *bytes = extent.length;
  return PST_DONE;
}
