// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/read_stream.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/io/errno_name.hpp"

namespace penstock {
namespace {

using Verdict = ReadProgress::Verdict;

constexpr std::size_t batch_max = 64;  // Reads of one submit, completions of one reap.
constexpr Nanoseconds retry_first = std::chrono::milliseconds(1);
constexpr std::uint32_t retry_doublings_max = 6;
constexpr Nanoseconds look_again =
    std::chrono::milliseconds(100);  // At what is in flight, should an event be lost.

constexpr bool is_multiple(std::uint64_t value, std::uint32_t granule) { return value % granule == 0; }

}  // namespace

Result<std::unique_ptr<ReadStream>> ReadStream::make(std::unique_ptr<FileReader> reader,
                                                     FallbackMaker make_fallback,
                                                     const ReadStreamOptions& options) {
  CHECK(reader != nullptr && options.requests_max > 0);
  UniqueFd events(::epoll_create1(EPOLL_CLOEXEC));
  if (!events) return Error{Errc::exhausted, errno, "epoll_create1"};
  auto stream = std::unique_ptr<ReadStream>(
      new ReadStream(std::move(reader), std::move(make_fallback), std::move(events), options));
  TRY(stream->watch());
  return stream;
}

ReadStream::ReadStream(std::unique_ptr<FileReader> reader, FallbackMaker make_fallback, UniqueFd events,
                       const ReadStreamOptions& options)
    : options_(options),
      reader_(std::move(reader)),
      make_fallback_(std::move(make_fallback)),
      events_(std::move(events)),
      files_(IdTable<StreamFile, File>::places_max),
      entries_(options.requests_max),
      lists_(options.requests_max, places),
      bucket_(options.bandwidth_bytes_per_second) {}

ReadStream::~ReadStream() {
  if (reader_ != nullptr) reader_->cancel_all();
}

// A reader without a descriptor (a simulated one) is polled by its owner's clock.
Result<> ReadStream::watch() {
  if (reader_->event_fd() < 0) return {};
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, reader_->event_fd(), &event) != 0) {
    return Error{Errc::exhausted, errno, "epoll_ctl"};
  }
  return {};
}

Result<StreamFile> ReadStream::add(std::shared_ptr<CheckpointFile> file) {
  FileId id{};
  if (reader_ != nullptr) id = TRY(reader_->add(file->cached_fd(), file->direct_fd()));
  const bool direct = file->direct().usable;
  const auto stream_file = files_.add(File{.file = std::move(file), .id = id, .direct = direct});
  if (!stream_file) {
    if (reader_ != nullptr) reader_->remove(id);
    return Error{Errc::exhausted, 0, "add file"};
  }
  return *stream_file;
}

void ReadStream::remove(StreamFile file) {
  const File& gone = files_.at(file);
  CHECK(gone.unanswered == 0);
  if (reader_ != nullptr) reader_->remove(gone.id);
  files_.remove(file);
}

void ReadStream::push(const Request& request) {
  CHECK(request.needed_bytes > 0 && request.needed_bytes <= request.extent.length);
  const std::uint32_t index = lists_.first(Place::unused);
  CHECK(index != none);
  entries_[index] = Entry{};
  entries_[index].request = request;
  entries_[index].progress = ReadProgress(request.extent, request.needed_bytes);
  lists_.move_to_back(request.urgency == Urgency::fault ? Place::fault : Place::bulk, index);
  ++files_.at(request.file).unanswered;
  ++unanswered_;
}

std::size_t ReadStream::poll(Nanoseconds now, std::span<Answer> answers) {
  now_ = std::max(now_, now);
  reap();
  wake_delayed();
  start();
  std::size_t count = 0;
  for (; count < answers.size() && !lists_.empty(Place::answered); ++count) {
    const std::uint32_t index = lists_.first(Place::answered);
    answers[count] = entries_[index].answer;
    --files_.at(entries_[index].request.file).unanswered;
    --unanswered_;
    lists_.move_to_back(Place::unused, index);
  }
  return count;
}

void ReadStream::reap() {
  std::array<ReadDone, batch_max> done;
  while (reader_ != nullptr) {
    const auto count = reader_->reap(done);
    if (!count) return switch_reader();
    for (std::size_t index = 0; index < *count; ++index) handle(done[index]);
    if (*count < done.size()) return;
  }
}

void ReadStream::handle(const ReadDone& done) {
  CHECK(done.tag < entries_.size());
  const auto index = static_cast<std::uint32_t>(done.tag);
  Entry& entry = entries_[index];
  CHECK(lists_.list_of(index) == Place::in_flight);
  if (done.result > 0) {
    const bool direct = entry.path == ReadPath::direct;
    (direct ? counters_.direct_bytes : counters_.cached_bytes) += static_cast<std::uint64_t>(done.result);
  }
  const Verdict verdict = entry.progress.take(done.result, entry.asked, entry.path);
  const bool goes_on = verdict == Verdict::more || verdict == Verdict::stalled;
  if (goes_on && static_cast<std::uint64_t>(done.result) < entry.asked.length) ++counters_.short_reads;
  if (entry.cancelled) return finish(index, false, FailureKind::cancelled);
  follow(index, verdict, done.result);
}

void ReadStream::follow(std::uint32_t index, Verdict verdict, std::int32_t result) {
  Entry& entry = entries_[index];
  switch (verdict) {
    case Verdict::complete: return finish(index, true);
    case Verdict::more: return lists_.move_to_back(Place::continued, index);
    case Verdict::retry:
      ++counters_.retries;
      entry.retry_at = now_ + retry_first * (1 << std::min(entry.progress.retries(), retry_doublings_max));
      return lists_.move_to_back(Place::delayed, index);
    case Verdict::direct_refused: {
      File& file = files_.at(entry.request.file);
      if (std::exchange(file.direct, false)) ++counters_.direct_refusals;
      entry.path = ReadPath::cached;
      return lists_.move_to_back(Place::continued, index);
    }
    case Verdict::stalled: entry.path = ReadPath::cached; return lists_.move_to_back(Place::continued, index);
    case Verdict::ended: ++counters_.unexpected_ends; return finish(index, false, FailureKind::truncated);
    case Verdict::failed:
      if (result == -ECANCELED) return finish(index, false, FailureKind::cancelled);
      ++counters_.io_errors;
      return finish(index, false, FailureKind::io_error, -result);
  }
}

void ReadStream::finish(std::uint32_t index, bool ok, FailureKind kind, std::int32_t native) {
  Entry& entry = entries_[index];
  if (entry.counted) bytes_in_flight_ -= entry.request.extent.length;
  const std::uint64_t bytes = entry.progress.bytes();
  entry.answer = Answer{.tag = entry.request.tag,
                        .ok = ok,
                        .kind = kind,
                        .native = native,
                        .bytes = bytes,
                        .stopped_at = entry.request.extent.offset + bytes,
                        .path = entry.path};
  lists_.move_to_back(Place::answered, index);
}

void ReadStream::wake_delayed() {
  for (std::uint32_t index = lists_.first(Place::delayed); index != none;) {
    const std::uint32_t next = lists_.next(index);
    if (entries_[index].retry_at <= now_) {
      lists_.move_to_back(Place::continued, index);
    }
    index = next;
  }
}

void ReadStream::start() {
  bucket_.advance(now_);
  blocked_until_.reset();
  std::array<ReadOp, batch_max> ops;
  while (reader_ != nullptr) {
    std::size_t count = 0;
    while (count < ops.size()) {
      const std::uint32_t index = next_to_start(count);
      if (index == none) break;
      ops[count++] = prepare(index);
    }
    if (count == 0 || !submit(std::span(ops).first(count))) return;
  }
  fail_waiting();
}

void ReadStream::fail_waiting() {
  for (const Place place : {Place::continued, Place::delayed, Place::fault, Place::bulk}) {
    while (!lists_.empty(place)) finish(lists_.first(place), false, FailureKind::unsupported);
  }
}

// Reads that go on come first, then faults, then bulk, which leaves a quarter of the queue to the others.
std::uint32_t ReadStream::next_to_start(std::size_t batched) {
  const std::size_t used = reader_->in_flight() + batched;
  const std::size_t depth = reader_->queue_depth();
  if (used >= depth) return none;
  if (!lists_.empty(Place::continued)) return lists_.first(Place::continued);

  std::uint32_t index = lists_.first(Place::fault);
  if (index == none) {
    index = lists_.first(Place::bulk);
    if (index == none || bytes_in_flight_ >= options_.bulk_bytes_in_flight || used >= depth - depth / 4)
      return none;
  }
  Entry& entry = entries_[index];
  if (!choose_path(entry)) return index;
  if (!bucket_.ready()) {
    blocked_until_ = bucket_.ready_at();
    return none;
  }
  bucket_.take(entry.request.extent.length);
  return index;
}

// Decides between the two descriptors, and returns whether the read may touch the storage.
bool ReadStream::choose_path(Entry& entry) {
  const Request& request = entry.request;
  const File& file = files_.at(request.file);
  const DirectLimits& limits = file.file->direct();
  const bool direct =
      file.direct && is_multiple(request.extent.offset, limits.offset_granule) &&
      is_multiple(request.extent.length, limits.offset_granule) &&
      is_multiple(reinterpret_cast<std::uintptr_t>(request.destination), limits.memory_granule);
  entry.path = direct ? ReadPath::direct : ReadPath::cached;
  if (!options_.consult_page_cache || (!direct && bucket_.unlimited())) return true;
  const Extent needed{.offset = request.extent.offset, .length = request.needed_bytes};
  if (!file.file->residency().wholly_cached(needed)) return true;
  entry.path = ReadPath::cached;
  return false;
}

ReadOp ReadStream::prepare(std::uint32_t index) {
  Entry& entry = entries_[index];
  const File& file = files_.at(entry.request.file);
  const DirectLimits& limits = file.file->direct();
  entry.asked = entry.progress.next(entry.path, std::max(limits.offset_granule, limits.memory_granule));
  if (!entry.counted) bytes_in_flight_ += entry.request.extent.length;
  entry.counted = true;
  lists_.move_to_back(Place::in_flight, index);
  return ReadOp{.file = file.id,
                .extent = entry.asked,
                .destination = entry.request.destination + (entry.asked.offset - entry.request.extent.offset),
                .slot = entry.request.slot,
                .path = entry.path,
                .tag = index};
}

// False: the reader takes nothing now. The reads wait at the front of the queue, in their order.
bool ReadStream::submit(std::span<const ReadOp> ops) {
  const auto submitted = reader_->submit(ops);
  if (submitted) return true;
  for (std::size_t position = ops.size(); position-- > 0;) {
    const auto index = static_cast<std::uint32_t>(ops[position].tag);
    lists_.move_to_front(Place::continued, index);
  }
  if (submitted.error().code == Errc::unsupported) {
    const FileReader* const refused = reader_.get();
    reap();  // Tells when nothing is written any more, so that the fallback may read to the same places.
    if (reader_.get() != refused) return true;
  }
  blocked_until_ = now_ + retry_first;
  return false;
}

// Everything that was in flight is read again: the same bytes to the same places.
void ReadStream::switch_reader() {
  ++counters_.reader_switches;
  if (reader_->event_fd() >= 0) (void)::epoll_ctl(events_.get(), EPOLL_CTL_DEL, reader_->event_fd(), nullptr);
  retired_.push_back(std::move(reader_));
  while (!lists_.empty(Place::in_flight)) {
    const std::uint32_t index = lists_.first(Place::in_flight);
    lists_.move_to_back(Place::continued, index);
    if (entries_[index].cancelled) finish(index, false, FailureKind::cancelled);
  }
  const FallbackMaker make_fallback = std::exchange(make_fallback_, nullptr);
  if (!make_fallback) return;
  auto fallback = make_fallback();
  if (!fallback) return;
  reader_ = *std::move(fallback);
  files_.for_each([this](StreamFile, File& file) {
    const auto id = reader_->add(file.file->cached_fd(), file.file->direct_fd());
    CHECK(id);  // A fallback has room for as many files as what it stands in for.
    file.id = *id;
  });
  if (!watch()) reader_.reset();
}

void ReadStream::cancel(std::uint64_t tag) {
  for (std::uint32_t index = 0; index < entries_.size(); ++index) {
    Entry& entry = entries_[index];
    const Place place = lists_.list_of(index);
    if (place == Place::unused || place == Place::answered || entry.request.tag != tag) continue;
    entry.cancelled = true;
    if (place == Place::in_flight) return;
    return finish(index, false, FailureKind::cancelled);
  }
}

void ReadStream::cancel_all() {
  for (std::uint32_t index = 0; index < entries_.size(); ++index) {
    Entry& entry = entries_[index];
    const Place place = lists_.list_of(index);
    if (place == Place::unused || place == Place::answered) continue;
    entry.cancelled = true;
    if (place == Place::in_flight) continue;
    finish(index, false, FailureKind::cancelled);
  }
  if (reader_ != nullptr) reader_->cancel_all();
}

std::size_t ReadStream::unanswered() const { return unanswered_; }
int ReadStream::event_fd() const { return events_.get(); }
const ReadCounters& ReadStream::counters() const { return counters_; }
std::string_view ReadStream::backend() const { return reader_ != nullptr ? reader_->backend() : "none"; }

std::optional<Nanoseconds> ReadStream::next_deadline() const {
  if (!lists_.empty(Place::answered)) return now_;
  std::optional<Nanoseconds> deadline = blocked_until_;
  const auto sooner = [&deadline](Nanoseconds at) { deadline = deadline ? std::min(*deadline, at) : at; };
  for (std::uint32_t index = lists_.first(Place::delayed); index != none; index = lists_.next(index)) {
    sooner(entries_[index].retry_at);
  }
  if (!lists_.empty(Place::in_flight)) sooner(now_ + look_again);
  return deadline;
}

Failure describe(const ReadStream::Answer& answer, std::uint64_t file_bytes) {
  std::string text;
  switch (answer.kind) {
    case FailureKind::truncated:
      text = fmt::format("unexpected end at {} of {}", answer.stopped_at, file_bytes);
      break;
    case FailureKind::cancelled: text = fmt::format("reading was cancelled at {}", answer.stopped_at); break;
    case FailureKind::unsupported: text = "no way of reading files is left: each one was refused"; break;
    default: text = fmt::format("read failed at {}: {}", answer.stopped_at, errno_name(answer.native)); break;
  }
  return Failure{.kind = answer.kind, .message = std::move(text), .hint = {}};
}

}  // namespace penstock
