// SPDX-License-Identifier: Apache-2.0
// ReadStream: reads whole extents through a FileReader, whatever the kernel answers on the way.
//
// push() queues "this extent to this destination"; every pushed request is answered exactly once through
// poll(), when all of its needed bytes are there or when it failed. Short reads go on from the last aligned
// boundary, EINTR and EAGAIN are submitted again (bounded, with a growing delay), a direct read that the file
// refuses (EINVAL) moves that file to cached reads, and a reader that is refused at run time is replaced by
// the fallback with everything in flight. Per extent, just before it is submitted: wholly in the page cache
// -> cached, else direct where the file can.
//
// How to use it, in a thread's turn:
//   1. poll(now, answers) until it returns less than answers.size();
//   2. act on the answers, push() what comes next;
//   3. poll once more: it submits what was pushed (one cheap system call when there is nothing to do);
//   4. wait for event_fd() to become readable, at most until next_deadline(). Before kernel 6.1 io_uring interrupts
//      the wait instead (EINTR): that is an event, too.
//
// Thread rule: made, used and destroyed on one thread. Never blocks on a read, except in the destructor,
// which waits for what is in flight: destinations may be freed afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "dataplane/base/ids.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/core/extent.hpp"
#include "dataplane/core/urgency.hpp"
#include "dataplane/io/checkpoint_file.hpp"
#include "dataplane/io/file_reader.hpp"
#include "dataplane/io/id_table.hpp"
#include "dataplane/io/index_lists.hpp"
#include "dataplane/io/read_progress.hpp"
#include "dataplane/io/token_bucket.hpp"

namespace penstock {

enum class StreamFile : std::uint32_t {};  // A file inside one ReadStream.

struct ReadStreamOptions {
  std::uint32_t requests_max = 4096;                // Pushed and not yet answered.
  std::uint64_t bulk_bytes_in_flight = 8ull << 20;  // Bulk reads start while less than this is in flight.
  std::uint64_t bandwidth_bytes_per_second = 0;     // From storage, not from the page cache; 0 = no cap.
  bool consult_page_cache = true;                   // False: direct wherever the file can.
};

struct ReadCounters {
  std::uint64_t direct_bytes = 0;  // What the kernel delivered, rounding and repeats included.
  std::uint64_t cached_bytes = 0;
  std::uint64_t short_reads = 0;      // Completions that left a request unfinished.
  std::uint64_t retries = 0;          // EINTR and EAGAIN.
  std::uint64_t io_errors = 0;        // Requests failed with an errno.
  std::uint64_t unexpected_ends = 0;  // Requests failed because the file ended early.
  std::uint64_t direct_refusals = 0;  // Files moved to cached reads by an EINVAL.
  std::uint64_t reader_switches = 0;  // 1 after the fallback took over.
};

class ReadStream {
 public:
  // Makes the reader that takes over when the first is refused at run time. May be empty: requests then fail.
  using FallbackMaker = std::function<Outcome<std::unique_ptr<FileReader>>()>;

  struct Request {
    StreamFile file{};
    Extent extent;                     // Its end may pass the file's end by less than the direct granule.
    std::uint64_t needed_bytes = 0;    // From extent.offset; > 0, <= extent.length.
    std::byte* destination = nullptr;  // extent.length bytes, valid until the answer.
    SlotId slot = no_slot;             // When the destination lies in the PinnedRing.
    Urgency urgency = Urgency::bulk;   // Fault reads start before bulk reads.
    std::uint64_t tag = 0;             // Unique among the unanswered; comes back unchanged.
  };

  struct Answer {
    std::uint64_t tag = 0;
    bool ok = false;
    FailureKind kind =
        FailureKind::internal;     // When !ok: io_error, truncated (ended early), cancelled, unsupported.
    std::int32_t native = 0;       // errno of an io_error.
    std::uint64_t bytes = 0;       // Good bytes at the destination, from extent.offset; >= needed when ok.
    std::uint64_t stopped_at = 0;  // Absolute offset in the file: extent.offset + bytes.
    ReadPath path = ReadPath::cached;  // Of the last read.
  };

  static Result<std::unique_ptr<ReadStream>> make(std::unique_ptr<FileReader> reader,
                                                  FallbackMaker make_fallback,
                                                  const ReadStreamOptions& options);
  ~ReadStream();
  ReadStream(const ReadStream&) = delete;
  ReadStream& operator=(const ReadStream&) = delete;

  // Keeps the file alive until remove(). Errc::exhausted when the reader's table is full.
  Result<StreamFile> add(std::shared_ptr<CheckpointFile> file);
  // REQUIRES: no unanswered request of this file.
  void remove(StreamFile file);

  // REQUIRES: unanswered() < options.requests_max.
  void push(const Request& request);
  // Reaps, continues, submits, and fills `answers` with what is done; returns how many. `now` is monotonic.
  std::size_t poll(Nanoseconds now, std::span<Answer> answers);
  // The request is answered with `cancelled`, at the next poll if it waits, after its read if that is under
  // way.
  void cancel(std::uint64_t tag);
  void cancel_all();

  std::size_t unanswered() const;
  // Readable when poll has something to do; the same descriptor for the stream's life.
  int event_fd() const;
  // When poll must be called even without an event: a delayed retry, bandwidth to come, a look at what is in
  // flight.
  std::optional<Nanoseconds> next_deadline() const;

  const ReadCounters& counters() const;
  std::string_view backend() const;

 private:
  enum class Place : std::uint8_t { unused, fault, bulk, continued, delayed, in_flight, answered };
  static constexpr std::uint32_t places = 7;
  // A request from push to answer.
  struct Entry {
    Request request;
    ReadProgress progress;
    Extent asked;  // What the read in flight was asked for.
    ReadPath path = ReadPath::cached;
    bool counted = false;  // Its bytes are in bytes_in_flight_.
    bool cancelled = false;
    Nanoseconds retry_at{0};
    Answer answer;
  };
  struct File {
    std::shared_ptr<CheckpointFile> file;
    FileId id{};
    bool direct = false;
    std::uint32_t unanswered = 0;
  };
  static constexpr std::uint32_t none = IndexLists<Place>::none;

  ReadStream(std::unique_ptr<FileReader> reader, FallbackMaker make_fallback, UniqueFd events,
             const ReadStreamOptions& options);
  Result<> watch();
  void reap();
  void handle(const ReadDone& done);
  void follow(std::uint32_t index, ReadProgress::Verdict verdict, std::int32_t result);
  void wake_delayed();
  void start();
  std::uint32_t next_to_start(std::size_t batched);
  bool choose_path(Entry& entry);
  ReadOp prepare(std::uint32_t index);
  bool submit(std::span<const ReadOp> ops);
  void finish(std::uint32_t index, bool ok, FailureKind kind = FailureKind::internal,
              std::int32_t native = 0);
  void fail_waiting();
  void switch_reader();

  ReadStreamOptions options_;
  std::unique_ptr<FileReader> reader_;                // Null once everything was refused.
  std::vector<std::unique_ptr<FileReader>> retired_;  // Refused ones: the kernel may still know their memory.
  FallbackMaker make_fallback_;
  UniqueFd events_;  // An epoll descriptor over the reader's, so that a switch is not seen outside.
  IdTable<StreamFile, File> files_;
  std::vector<Entry> entries_;
  IndexLists<Place> lists_;
  std::uint32_t unanswered_ = 0;
  std::uint64_t bytes_in_flight_ = 0;
  TokenBucket bucket_;
  Nanoseconds now_{0};
  std::optional<Nanoseconds> blocked_until_;  // Bandwidth, or a reader that took nothing though it had room.
  ReadCounters counters_;
};

// The text of a failed answer, e.g. "unexpected end at 4096 of 12388" or "read failed at 4096: EIO".
Failure describe(const ReadStream::Answer& answer, std::uint64_t file_bytes);

}  // namespace penstock
