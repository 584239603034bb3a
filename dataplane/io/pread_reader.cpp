// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/pread_reader.hpp"

#include <fmt/format.h>

#include "dataplane/base/check.hpp"
#include "dataplane/io/errno_name.hpp"

namespace penstock {

Outcome<std::unique_ptr<FileReader>> PreadReader::open(const ReaderOptions& options) {
  auto pool = ReadPool::start(options.pread_threads, options.queue_depth);
  if (!pool) {
    return fail(FailureKind::exhausted,
                fmt::format("cannot start {} reading threads: {}: {}", options.pread_threads,
                            pool.error().operation, errno_name(pool.error().native)));
  }
  return std::unique_ptr<FileReader>(new PreadReader(*std::move(pool), options));
}

PreadReader::PreadReader(std::unique_ptr<ReadPool> pool, const ReaderOptions& options)
    : queue_depth_(options.queue_depth), files_(options.files_max), pool_(std::move(pool)) {
  jobs_.reserve(queue_depth_);
}

Result<FileId> PreadReader::add(int cached_fd, int direct_fd) {
  const auto file = files_.add(Descriptors{.cached = cached_fd, .direct = direct_fd});
  if (!file) return Error{Errc::exhausted, 0, "add file"};
  return *file;
}

void PreadReader::remove(FileId file) { files_.remove(file); }

Result<> PreadReader::submit(std::span<const ReadOp> ops) {
  if (ops.size() > queue_depth_ - pool_->in_flight()) return Error{Errc::busy, 0, "submit"};
  jobs_.clear();
  for (const ReadOp& op : ops) {
    CHECK(op.extent.length > 0 && op.extent.length <= read_bytes_limit);
    const Descriptors& file = files_.at(op.file);
    const int fd = op.path == ReadPath::direct ? file.direct : file.cached;
    CHECK(fd >= 0);
    jobs_.push_back({.fd = fd, .extent = op.extent, .destination = op.destination, .tag = op.tag});
  }
  pool_->push(jobs_);
  return {};
}

// The event is consumed after collecting and then looked behind, so that what finishes in between is not missed, and
// what was collected does not wake the caller once more.
Result<std::size_t> PreadReader::reap(std::span<ReadDone> done) {
  std::size_t count = 0;
  do {
    count += pool_->collect(done.subspan(count));
    pool_->event().consume();
  } while (count < done.size() && pool_->can_collect());
  if (pool_->can_collect()) pool_->event().signal();
  return count;
}

void PreadReader::cancel_all() { pool_->cancel_waiting(); }
std::size_t PreadReader::in_flight() const { return pool_->in_flight(); }
std::size_t PreadReader::queue_depth() const { return queue_depth_; }
int PreadReader::event_fd() const { return pool_->event().fd(); }
std::string_view PreadReader::backend() const { return "pread"; }

}  // namespace penstock
