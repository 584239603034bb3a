// SPDX-License-Identifier: Apache-2.0
#include "service/control/spare_page_cache.hpp"

#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>

namespace penstock {
namespace {

std::vector<Extent> joined(std::vector<Extent> extents) {
  std::ranges::sort(extents, {}, &Extent::offset);
  std::vector<Extent> all;
  for (const Extent& one : extents) {
    if (!all.empty() && one.offset <= all.back().offset + all.back().length) {
      const std::uint64_t end = std::max(all.back().offset + all.back().length, one.offset + one.length);
      all.back().length = end - all.back().offset;
    } else {
      all.push_back(one);
    }
  }
  return all;
}

Outcome<std::uint64_t> advise(const TableSource& source, const PageWords& words, std::uint32_t file) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : resident_extents(source, words, file)) {
    // Pages that lie in it in part stay.
    const int error = ::posix_fadvise(source.files[file]->cached_fd(), static_cast<off_t>(extent.offset),
                                      static_cast<off_t>(extent.length), POSIX_FADV_DONTNEED);
    if (error == 0) bytes += extent.length;
  }
  return bytes;
}

}  // namespace

std::vector<Extent> resident_extents(const TableSource& source, const PageWords& words, std::uint32_t file) {
  std::vector<Extent> extents;
  std::vector<PagePiece> pieces;
  for (std::uint32_t page = 0; page < std::min(words.pages(), source.layout.pages()); ++page) {
    if (static_cast<Residency>(words.load(page) >> 62) != Residency::resident) continue;
    pieces.clear();
    source.layout.pieces_of(page, pieces);
    for (const PagePiece& piece : pieces) {
      if (source.layout.pieces()[piece.piece].file == file) extents.push_back(piece.source);
    }
  }
  return joined(std::move(extents));
}

void SparePageCache::drop(Nanoseconds now, const TableRegistry& tables,
                          const std::function<bool(const Checkpoint&)>& has_cache) {
  if (now < next_ || *under_way_ > 0) return;
  next_ = now + period;
  for (const auto& [id, table] : tables.tables()) {
    if (!table->source || !table->words) continue;
    for (std::uint32_t file = 0; file < table->source->files.size(); ++file) {
      const auto checkpoint = std::ranges::find(table->checkpoints, table->source->files[file],
                                                [](const auto& one) { return one->file; });
      if (checkpoint == table->checkpoints.end() || !has_cache(**checkpoint)) continue;
      drop(table, file, *checkpoint);
    }
  }
}

void SparePageCache::drop(const std::shared_ptr<SharedTable>& table, std::uint32_t file,
                          const std::shared_ptr<Checkpoint>& checkpoint) {
  ++*under_way_;
  opener_.run<std::uint64_t>(
      fmt::format("the page cache of {}", checkpoint->path),
      [source = table->source, words = table->words, file] { return advise(*source, *words, file); },
      [told = told_, under_way = under_way_, checkpoint](Outcome<std::uint64_t> bytes) {
        --*under_way;
        if (bytes && *bytes > 0) (*told)(*checkpoint, *bytes);
      });
}

}  // namespace penstock
