// SPDX-License-Identifier: Apache-2.0
// Reads of file ranges into host buffers, part by part through one ReadStream. Knows neither sessions nor sockets.
//
// A part that the page cache holds goes straight to the buffer. Any other goes to a slot and is written to the buffer
// once it is there, so that the kernel never holds an unfinished read of the storage on a client's memory: a read that
// nobody waits for any more is dropped with its slot.
//
// Thread rule: made, used and destroyed on one thread, which waits for event_fd() until next_deadline().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "dataplane/io/checkpoint_file.hpp"
#include "dataplane/io/pinned_ring.hpp"
#include "dataplane/io/read_stream.hpp"

namespace penstock {

// A place in a host buffer. Its owner may cut the buffer at any time: nobody but the kernel may touch the address.
struct BufferPlace {
  std::shared_ptr<const void> memory;  // Keeps descriptor and address.
  int fd = -1;
  std::uint64_t offset = 0;      // In the buffer.
  std::byte* address = nullptr;  // Of that offset.
};

struct BufferRead {
  std::uint64_t request = 0;  // Unique among those under way.
  std::shared_ptr<CheckpointFile> file;
  std::uint64_t file_offset = 0;
  std::uint64_t bytes =
      0;  // > 0; the range lies within the file as its identity has it, and within the buffer.
  BufferPlace place;
  Nanoseconds deadline{};
};

class BufferReads {
 public:
  static constexpr std::uint32_t parts_max = 32;  // Under way at once.
  // Called in turn(). Nothing writes to the range any more.
  using Answer = std::function<void(std::uint64_t request, Outcome<void> outcome)>;

  BufferReads(std::unique_ptr<PinnedRing> ring, std::unique_ptr<ReadStream> stream, Answer answer);
  BufferReads(const BufferReads&) = delete;
  BufferReads& operator=(const BufferReads&) = delete;

  void start(BufferRead read);
  void cancel(std::uint64_t request);
  // No read of it will come any more.
  void drop(const std::shared_ptr<CheckpointFile>& file);
  // Nothing is answered from now on. Call turn() until over().
  void stop();
  bool over() const { return stopped_ && stream_->unanswered() == 0; }

  void turn(Nanoseconds now);
  int event_fd() const { return stream_->event_fd(); }
  std::optional<Nanoseconds> next_deadline() const;
  const ReadCounters& counters() const { return stream_->counters(); }

 private:
  struct Job {
    BufferRead read;
    std::uint64_t pushed = 0;    // Bytes that parts were made of.
    std::uint32_t straight = 0;  // Parts under way that write to the buffer.
    std::uint32_t staged = 0;    // Parts under way in slots.
    std::optional<Failure> failure;
    bool answered = false;
  };
  struct KnownFile {
    std::shared_ptr<CheckpointFile> file;
    StreamFile id{};
    std::uint32_t parts = 0;
    bool dropped = false;
  };
  struct Part {
    std::shared_ptr<Job> job;
    KnownFile* file = nullptr;
    std::uint64_t at = 0;  // In the job's range.
    std::uint64_t bytes = 0;
    std::uint64_t skipped = 0;  // What the slot has before it.
    SlotId slot = no_slot;
  };

  KnownFile* known(const BufferRead& read);
  void forget_if_unused(KnownFile& file);
  bool push_part(const std::shared_ptr<Job>& job);
  bool push();
  void finish(const ReadStream::Answer& answer);
  void settle(Nanoseconds now);

  std::unique_ptr<PinnedRing> ring_;
  std::unique_ptr<ReadStream> stream_;
  const Answer answer_;
  std::list<std::shared_ptr<Job>> jobs_;  // Not answered yet, in the order in which they came.
  std::map<const CheckpointFile*, KnownFile> files_;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> free_parts_;
  bool stopped_ = false;
};

}  // namespace penstock
