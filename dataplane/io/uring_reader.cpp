// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/uring_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/io/errno_name.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t cancel_mark = UINT64_MAX;  // Travels through the kernel with a cancel.
constexpr std::uint32_t extra_entries = 1;         // A cancel, beside a full queue.

Failure not_registered(const Error& error) {
  return Failure{
      .kind = FailureKind::exhausted,
      .message = fmt::format("staging memory is not registered with io_uring ({})", errno_name(error.native)),
      .hint = {}};
}

}  // namespace

Outcome<std::unique_ptr<FileReader>> UringReader::open(const ReaderOptions& options, const PinnedRing* ring) {
  auto uring = Uring::open(options.queue_depth + extra_entries);
  if (!uring) return tl::unexpected(uring.error());
  auto pool = ReadPool::start(options.copy_threads, options.queue_depth);
  if (!pool) {
    return fail(FailureKind::exhausted, fmt::format("cannot start {} copying threads: {}",
                                                    options.copy_threads, errno_name(pool.error().native)));
  }
  auto reader = std::unique_ptr<UringReader>(new UringReader(*std::move(uring), *std::move(pool), options));
  if (const auto event = reader->uring_->register_event(reader->pool_->event().fd()); !event) {
    return tl::unexpected(event.error());
  }
  reader->files_registered_ = reader->uring_->register_files(options.files_max);
  if (ring != nullptr && options.register_buffers) {
    const auto registered = reader->uring_->register_buffers(ring->pieces());
    if (!registered) return tl::unexpected(not_registered(registered.error()));
    reader->registered_ = ring;
  }
  return reader;
}

UringReader::UringReader(std::unique_ptr<Uring> uring, std::unique_ptr<ReadPool> pool,
                         const ReaderOptions& options)
    : queue_depth_(options.queue_depth),
      uring_(std::move(uring)),
      files_(options.files_max),
      tags_(options.queue_depth),
      pool_(std::move(pool)) {
  for (std::uint32_t place = queue_depth_; place-- > 0;) free_places_.push_back(place);
  jobs_.reserve(queue_depth_);
}

UringReader::~UringReader() {
  if (free_places_.size() < queue_depth_) cancel_all();
  std::vector<ReadDone> ignored(queue_depth_);
  while (free_places_.size() < queue_depth_ && !uring_->refused()) {
    if (!uring_->wait()) break;
    take_completions(ignored);
  }
}

// A file that can't be registered is named by its descriptor: slower by a reference a read.
Result<FileId> UringReader::add(int cached_fd, int direct_fd) {
  const auto file = files_.add(Descriptors{.cached = cached_fd, .direct = direct_fd});
  if (!file) return Error{Errc::exhausted, 0, "add file"};
  if (files_registered_ && direct_fd >= 0) {
    files_.at(*file).registered = uring_->set_file(files_.place_of(*file), direct_fd).has_value();
  }
  return *file;
}

void UringReader::remove(FileId file) {
  // A failure leaves the kernel's entry as it is: the next file of this place replaces it.
  if (files_.at(file).registered) (void)uring_->set_file(files_.place_of(file), -1);
  files_.remove(file);
}

Result<> UringReader::submit(std::span<const ReadOp> ops) {
  if (uring_->refused()) return Error{Errc::unsupported, EPERM, "io_uring_enter"};
  if (ops.size() > queue_depth_ - in_flight()) return Error{Errc::busy, 0, "submit"};
  jobs_.clear();
  for (const ReadOp& op : ops) {
    CHECK(op.extent.length > 0 && op.extent.length <= read_bytes_limit);
    if (op.path == ReadPath::direct) {
      prepare(op);
    } else {
      const int fd = files_.at(op.file).cached;
      CHECK(fd >= 0);
      jobs_.push_back({.fd = fd, .extent = op.extent, .destination = op.destination, .tag = op.tag});
    }
  }
  if (!jobs_.empty()) pool_->push(jobs_);
  return uring_->submit();
}

void UringReader::prepare(const ReadOp& op) {
  const Descriptors& file = files_.at(op.file);
  CHECK(file.direct >= 0);
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  tags_[place] = op.tag;

  const int fd = file.registered ? static_cast<int>(files_.place_of(op.file)) : file.direct;
  const auto length = static_cast<unsigned>(op.extent.length);
  io_uring_sqe* const entry = uring_->next_entry();
  if (registered_ != nullptr && op.slot != no_slot) {
    const std::byte* const slot = registered_->address(op.slot);
    CHECK(op.destination >= slot && op.destination + length <= slot + registered_->slot_bytes());
    io_uring_prep_read_fixed(entry, fd, op.destination, length, op.extent.offset,
                             registered_->piece_of(op.slot));
  } else {
    io_uring_prep_read(entry, fd, op.destination, length, op.extent.offset);
  }
  if (file.registered) entry->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(entry, place);
}

std::size_t UringReader::take_completions(std::span<ReadDone> done) {
  std::size_t count = 0;
  // A cancel's answer fills no place of `done`, so this may leave some behind: can_collect() tells.
  uring_->consume(done.size(), [&](std::uint64_t data, std::int32_t result) {
    if (data == cancel_mark) return;
    CHECK(data < tags_.size());
    done[count++] = ReadDone{.tag = tags_[data], .result = result};
    free_places_.push_back(static_cast<std::uint32_t>(data));
  });
  return count;
}

// The event is consumed after collecting and then looked behind: the kernel signals once when work waits and
// once more when collecting makes completions of it, which would wake the caller for what it has got.
Result<std::size_t> UringReader::reap(std::span<ReadDone> done) {
  if (uring_->refused()) return reap_refused(done);
  std::size_t count = 0;
  const auto more = [this] { return uring_->can_collect() || pool_->can_collect(); };
  do {
    // A refusal is remembered, and told once the copying threads are done.
    const bool refused = (uring_->unsubmitted() > 0 && !uring_->submit()) || !uring_->collect();
    if (refused) return count > 0 ? count : reap_refused(done);
    count += take_completions(done.subspan(count));
    count += pool_->collect(done.subspan(count));
    pool_->event().consume();
  } while (count < done.size() && more());
  if (more()) pool_->event().signal();
  return count;
}

// The caller reads everything that is lost to the ring into the same places again, so no thread of ours may still
// write there when it is told.
Result<std::size_t> UringReader::reap_refused(std::span<ReadDone> done) {
  const std::size_t count = pool_->collect(done);
  pool_->event().consume();
  if (pool_->can_collect()) pool_->event().signal();
  if (count == 0 && pool_->in_flight() == 0) return Error{Errc::unsupported, EPERM, "io_uring_enter"};
  return count;
}

void UringReader::cancel_all() {
  pool_->cancel_waiting();
  if (uring_->refused() || free_places_.size() == queue_depth_) return;
  // No room for a cancel: the kernel takes nothing now, and reads nothing of what it has not taken.
  if (uring_->unsubmitted() > queue_depth_) return;
  io_uring_sqe* const entry = uring_->next_entry();
  io_uring_prep_cancel64(entry, 0, IORING_ASYNC_CANCEL_ANY);
  io_uring_sqe_set_data64(entry, cancel_mark);
  (void)uring_->submit();  // A refusal is remembered, and told by the next reap.
}

std::size_t UringReader::in_flight() const { return queue_depth_ - free_places_.size() + pool_->in_flight(); }
std::size_t UringReader::queue_depth() const { return queue_depth_; }
int UringReader::event_fd() const { return pool_->event().fd(); }
std::string_view UringReader::backend() const {
  return registered_ != nullptr ? "uring" : "uring-unregistered";
}

}  // namespace penstock
