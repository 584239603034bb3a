// SPDX-License-Identifier: Apache-2.0
#include "service/control/buffer_reads.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/errno_name.hpp"

namespace penstock {
namespace {

Failure cut() {
  return {FailureKind::invalid_argument, "the buffer was cut or freed while a file was read into it", ""};
}

// By way of the kernel, which finds out what the buffer's owner has cut off meanwhile; a touch of it would be SIGBUS.
std::optional<Failure> write_to(const BufferPlace& place, std::uint64_t at, const std::byte* from,
                                std::uint64_t bytes) {
  for (std::uint64_t done = 0; done < bytes;) {
    const ssize_t count =
        ::pwrite(place.fd, from + done, bytes - done, static_cast<off_t>(place.offset + at + done));
    if (count > 0) {
      done += static_cast<std::uint64_t>(count);
    } else if (count == 0 || errno == EPERM || errno == EFBIG) {
      return cut();
    } else if (errno != EINTR) {
      return Failure{FailureKind::io_error,
                     fmt::format("writing to the buffer failed: {}", errno_name(errno)), ""};
    }
  }
  return std::nullopt;
}

}  // namespace

BufferReads::BufferReads(std::unique_ptr<PinnedRing> ring, std::unique_ptr<ReadStream> stream, Answer answer)
    : ring_(std::move(ring)), stream_(std::move(stream)), answer_(std::move(answer)), parts_(parts_max) {
  for (std::uint32_t part = parts_max; part-- > 0;) free_parts_.push_back(part);
}

void BufferReads::start(BufferRead read) {
  if (stopped_) return;
  jobs_.push_back(std::make_shared<Job>());
  jobs_.back()->read = std::move(read);
}

void BufferReads::cancel(std::uint64_t request) {
  for (const auto& job : jobs_) {
    if (job->read.request != request || job->failure) continue;
    job->failure = Failure{FailureKind::cancelled, "reading into the buffer was cancelled", ""};
  }
}

void BufferReads::drop(const std::shared_ptr<CheckpointFile>& file) {
  const auto found = files_.find(file.get());
  if (found == files_.end()) return;
  found->second.dropped = true;
  forget_if_unused(found->second);
}

void BufferReads::stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& job : jobs_) job->answered = true;
  jobs_.clear();
  stream_->cancel_all();
}

BufferReads::KnownFile* BufferReads::known(const BufferRead& read) {
  const auto found = files_.find(read.file.get());
  if (found != files_.end()) return &found->second;
  const auto added = stream_->add(read.file);
  if (!added) return nullptr;
  return &files_.emplace(read.file.get(), KnownFile{.file = read.file, .id = *added}).first->second;
}

// A read that was started before its file was dropped may still come to it.
void BufferReads::forget_if_unused(KnownFile& file) {
  const bool wanted = std::ranges::any_of(
      jobs_, [&](const std::shared_ptr<Job>& job) { return job->read.file == file.file; });
  if (!file.dropped || file.parts > 0 || wanted) return;
  stream_->remove(file.id);
  files_.erase(file.file.get());
}

// False: there is no room for the next part now.
bool BufferReads::push_part(const std::shared_ptr<Job>& job) {
  const BufferRead& read = job->read;
  if (free_parts_.empty()) return false;
  KnownFile* const file = known(read);
  if (file == nullptr) {
    job->failure = Failure{FailureKind::exhausted, "too many files are read from at once", ""};
    return true;
  }
  // Parts end at multiples of a slot, so that what direct reads round to fits into one.
  const std::uint64_t from = read.file_offset + job->pushed;
  const std::uint64_t next = (from / ring_->slot_bytes() + 1) * ring_->slot_bytes();
  const std::uint64_t to = std::min(read.file_offset + read.bytes, next);
  Part part{.job = job, .file = file, .at = job->pushed, .bytes = to - from};
  ReadStream::Request request{.file = file->id, .extent = {.offset = from, .length = to - from}};
  request.needed_bytes = to - from;
  request.urgency = Urgency::fault;  // Somebody waits for it.
  if (read.file->residency().wholly_cached(request.extent)) {
    request.destination = read.place.address + job->pushed;
    ++job->straight;
  } else {
    const auto slot = ring_->take();
    if (!slot) return false;
    part.slot = request.slot = *slot;
    const DirectLimits& direct = read.file->direct();
    if (direct.usable) {
      const std::uint64_t granule = direct.offset_granule;
      part.skipped = from % granule;
      request.extent.offset = from - part.skipped;
      request.extent.length = round_up(to, granule) - request.extent.offset;
      request.needed_bytes += part.skipped;
    }
    request.destination = ring_->address(*slot);
    ++job->staged;
  }
  request.tag = free_parts_.back();
  free_parts_.pop_back();
  ++file->parts;
  job->pushed += part.bytes;
  parts_[request.tag] = std::move(part);
  stream_->push(request);
  return true;
}

bool BufferReads::push() {
  bool pushed = false;
  for (const auto& job : jobs_) {
    while (!job->failure && job->pushed < job->read.bytes) {
      if (!push_part(job)) return pushed;
      pushed = true;
    }
  }
  return pushed;
}

void BufferReads::finish(const ReadStream::Answer& answer) {
  Part part = std::exchange(parts_[answer.tag], {});
  free_parts_.push_back(static_cast<std::uint32_t>(answer.tag));
  Job& job = *part.job;
  const bool staged = part.slot != no_slot;
  --(staged ? job.staged : job.straight);
  if (!answer.ok && !job.failure) {
    const bool unwritable = !staged && answer.native == EFAULT;
    job.failure = unwritable ? cut() : describe(answer, job.read.file->identity().bytes);
  }
  if (staged) {
    if (!job.answered && !job.failure)
      job.failure = write_to(job.read.place, part.at, ring_->address(part.slot) + part.skipped, part.bytes);
    ring_->give_back(part.slot);
  }
  --part.file->parts;
  forget_if_unused(*part.file);
}

void BufferReads::settle(Nanoseconds now) {
  std::vector<std::shared_ptr<Job>> settled;
  for (const auto& job : jobs_) {
    if (!job->failure && now >= job->read.deadline) {
      job->failure = Failure{FailureKind::deadline, "the file's bytes did not come within the time given",
                             "is it on a network or FUSE mount whose server is gone?"};
    }
    const bool whole = job->pushed == job->read.bytes && job->staged == 0;
    if (job->straight == 0 && (job->failure || whole)) settled.push_back(job);
  }
  for (const auto& job : settled) {
    job->answered = true;
    jobs_.remove(job);
    Outcome<void> outcome;
    if (job->failure) outcome = tl::unexpected<Failure>(*job->failure);
    answer_(job->read.request, std::move(outcome));
    const auto file = files_.find(job->read.file.get());
    if (file != files_.end()) forget_if_unused(file->second);
  }
}

void BufferReads::turn(Nanoseconds now) {
  std::array<ReadStream::Answer, parts_max> answers;
  while (true) {
    const std::size_t count = stream_->poll(now, answers);
    for (std::size_t index = 0; index < count; ++index) finish(answers[index]);
    const bool pushed = push();
    settle(now);
    if (count == 0 && !pushed) return;
  }
}

std::optional<Nanoseconds> BufferReads::next_deadline() const {
  std::optional<Nanoseconds> next = stream_->next_deadline();
  for (const auto& job : jobs_) {
    // One that has failed waits for its last bytes alone.
    if (!job->failure && (!next || job->read.deadline < *next)) next = job->read.deadline;
  }
  return next;
}

}  // namespace penstock
