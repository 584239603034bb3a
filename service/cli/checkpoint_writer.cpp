// SPDX-License-Identifier: Apache-2.0
#include "service/cli/checkpoint_writer.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

#include "dataplane/base/units.hpp"
#include "service/cli/chunk_queue.hpp"
#include "service/cli/progress.hpp"
#include "service/cli/tensor_content.hpp"

namespace penstock {
namespace {

constexpr std::size_t chunk_bytes = 4 * mib;
constexpr std::size_t chunk_count = 4;

// The filling side: the header, then one tensor after the other, cut into chunks.
class Filler {
 public:
  Filler(const CheckpointPlan& plan, std::uint64_t seed, ChunkQueue& queue, const Interruption& interruption)
      : plan_(plan), seed_(seed), queue_(queue), interruption_(interruption) {}

  // False when it was told to stop.
  bool run() {
    const auto header = std::as_bytes(std::span(plan_.header));
    for (std::size_t at = 0; at < header.size();) {
      const auto room = make_room(header.size() - at);
      if (room.empty()) return false;
      std::memcpy(room.data(), header.data() + at, room.size());
      at += room.size();
    }
    for (std::size_t tensor = 0; tensor < plan_.tensors.size(); ++tensor) {
      if (!fill_tensor(tensor)) return false;
    }
    flush();
    return true;
  }
  std::string take_digest_lines() { return std::move(lines_); }

 private:
  bool fill_tensor(std::size_t position) {
    const ShapeTensor& tensor = plan_.tensors[position];
    const std::uint64_t bytes = tensor.bytes();
    for (std::uint64_t at = 0; at < bytes;) {
      const auto room = make_room(bytes - at);
      if (room.empty()) return false;
      fill_content(seed_, position, tensor.dtype, at, room);
      hash_.update(room);
      at += room.size();
    }
    lines_ += to_hex(hash_.finish()) + "  " + tensor.name + "\n";
    return true;
  }

  // Up to `wanted` more bytes of the current chunk; empty when the other side stopped.
  std::span<std::byte> make_room(std::uint64_t wanted) {
    if (current_.size() == chunk_bytes) flush();
    if (current_.capacity() == 0) {
      auto chunk = queue_.take_empty();
      if (!chunk || interruption_.is_wanted()) return {};
      current_ = *std::move(chunk);
      current_.clear();
      progress_.show(filled_);
    }
    const std::size_t old = current_.size();
    const std::size_t bytes = std::min<std::uint64_t>(wanted, chunk_bytes - old);
    current_.resize(old + bytes);
    filled_ += bytes;
    return std::span(current_).subspan(old);
  }

  void flush() { queue_.give_full(std::exchange(current_, {})); }

  const CheckpointPlan& plan_;
  const std::uint64_t seed_;
  ChunkQueue& queue_;
  Chunk current_;
  Sha256 hash_;
  std::string lines_;
  std::uint64_t filled_ = 0;
  const Interruption& interruption_;
  Progress progress_{plan_.file_bytes};
};

Outcome<Sha256Digest> empty_chunks(ChunkQueue& queue, NewFile& file) {
  Sha256 hash;
  while (auto chunk = queue.take_full()) {
    hash.update(*chunk);
    if (auto written = file.write(*chunk); !written) {
      queue.stop();
      return tl::unexpected(std::move(written.error()));
    }
    queue.give_empty(*std::move(chunk));
  }
  return hash.finish();
}

}  // namespace

Outcome<WrittenCheckpoint> write_checkpoint(const CheckpointPlan& plan, std::uint64_t seed, NewFile& file,
                                            const Interruption& interruption) {
  if (auto reserved = file.reserve(plan.file_bytes); !reserved)
    return tl::unexpected(std::move(reserved.error()));
  ChunkQueue queue(chunk_count, chunk_bytes);
  Outcome<Sha256Digest> digest = Sha256Digest{};
  std::thread writer([&] { digest = empty_chunks(queue, file); });
  Filler filler(plan, seed, queue, interruption);
  const bool filled = filler.run();
  if (filled) {
    queue.end();
  } else {
    queue.stop();
  }
  writer.join();
  if (!digest) return tl::unexpected(std::move(digest.error()));
  if (!filled) return fail(FailureKind::cancelled, "interrupted; nothing was left behind");
  return WrittenCheckpoint{.file_digest = *digest, .digest_lines = filler.take_digest_lines()};
}

}  // namespace penstock
