// SPDX-License-Identifier: Apache-2.0
// A few buffers that go round between one thread that fills them and one that empties them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace penstock {

using Chunk = std::vector<std::byte>;

class ChunkQueue {
 public:
  ChunkQueue(std::size_t chunks, std::size_t chunk_bytes) : empty_(chunks) {
    for (Chunk& chunk : empty_) chunk.reserve(chunk_bytes);
  }

  // The filling thread: a buffer to fill, when one is free; nothing after stop().
  std::optional<Chunk> take_empty() { return take(empty_, false); }
  void give_full(Chunk chunk) { give(full_, std::move(chunk)); }
  // The emptying thread: the next full buffer; nothing when all were taken after end(), or after stop().
  std::optional<Chunk> take_full() { return take(full_, true); }
  void give_empty(Chunk chunk) { give(empty_, std::move(chunk)); }

  // Nothing more will be filled.
  void end() {
    change([this] { ended_ = true; });
  }
  // Either thread gives up; the other one is told at its next call.
  void stop() {
    change([this] { stopped_ = true; });
  }

 private:
  std::optional<Chunk> take(std::deque<Chunk>& from, bool may_end) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || !from.empty() || (may_end && ended_); });
    if (stopped_ || from.empty()) return std::nullopt;
    Chunk chunk = std::move(from.front());
    from.pop_front();
    return chunk;
  }
  void give(std::deque<Chunk>& to, Chunk chunk) {
    change([&] { to.push_back(std::move(chunk)); });
  }
  template <class Change>
  void change(Change what) {
    {
      const std::lock_guard lock(mutex_);
      what();
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Chunk> empty_;
  std::deque<Chunk> full_;
  bool ended_ = false;
  bool stopped_ = false;
};

}  // namespace penstock
