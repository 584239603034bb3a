// SPDX-License-Identifier: Apache-2.0
#include "dataplane/writer/writer_loop.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <poll.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"

namespace penstock {
namespace {

Error wrong(const char* what) { return Error{Errc::protocol, 0, what}; }

}  // namespace

Result<> WriterLoop::run() {
  answers_.push_back(
      {.kind = WriterAnswerKind::ready, .version = writer_protocol_version, .value = filler_->free_bytes()});
  while (true) {
    Result<> turn = send_answers();
    if (turn) turn = wait();
    if (turn) turn = take_commands();
    if (turn) continue;
    if (turn.error().code == Errc::closed) return {};
    // Best effort: if it does not arrive, the end of the process tells the same.
    const WriterAnswer last{.kind = WriterAnswerKind::failed,
                            .code = static_cast<std::uint8_t>(turn.error().code),
                            .native = turn.error().native};
    (void)channel_.send(std::span(&last, 1));
    return turn;
  }
}

// For commands, for the filler, or for room in the socket.
Result<> WriterLoop::wait() {
  const bool blocked = !answers_.empty();     // L3
  const bool busy = next_ < received_.count;  // L2
  if (busy && !blocked && (filler_moved_ || filler_->event_fd() < 0)) return {};
  short events = 0;
  if (blocked) events |= POLLOUT;
  if (!blocked && !busy) events |= POLLIN;
  std::array<pollfd, 2> waits = {pollfd{.fd = channel_.fd(), .events = events, .revents = 0},
                                 pollfd{.fd = filler_->event_fd(), .events = POLLIN, .revents = 0}};
  if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return Error{Errc::io, errno, "poll"};
  // A service that is gone shall not wait for what the filler is busy with.
  if ((waits[0].revents & (POLLHUP | POLLERR)) != 0) return Error{Errc::closed, 0, "the service"};
  return {};
}

Result<> WriterLoop::take_commands() {
  TRY(answer_reached());
  if (!answers_.empty()) TRY(send_answers());
  while (answers_.empty()) {
    if (next_ == received_.count) {
      next_ = received_.count = 0;
      const Result<> came = channel_.receive(received_);
      if (!came && came.error().code == Errc::busy) break;
      if (!came) return came;
    }
    while (next_ < received_.count && TRY(carry_out(next_))) ++next_;
    if (next_ < received_.count) break;
    // One answer for all that is done at once.
    TRY(answer_reached());
    TRY(send_answers());
  }
  filler_->flush();
  // What it was busy with may have ended since it said so. Nothing will tell that again.
  return answer_reached();
}

Result<bool> WriterLoop::carry_out(std::size_t index) {
  const WriterCommand command = received_.commands[index];
  UniqueFd& descriptor = received_.descriptors[index];
  if (command.op == WriterOp::ping) {
    answers_.push_back({.kind = WriterAnswerKind::pong, .value = filler_->free_bytes()});
    return true;
  }
  if (command.op == WriterOp::stage) {
    TRY(stage(command, descriptor));
    return true;
  }
  TRY(check(command));
  if (const Error* failure = mapping_failure(command)) {
    fail(command, *failure);
    return true;
  }
  filler_moved_ = false;
  const Result<FenceId> own = start(command, descriptor);
  if (!own && own.error().code == Errc::busy) return false;
  if (!own) return own.error();
  if (command.op == WriterOp::map) tell_map_failure(command, *own);
  in_flight_.push_back({.own = *own, .theirs = command.fence, .checksum = command.op == WriterOp::checksum});
  return true;
}

Result<FenceId> WriterLoop::start(const WriterCommand& command, UniqueFd& descriptor) {
  switch (command.op) {
    case WriterOp::map: return start_map(command, descriptor);
    case WriterOp::unmap: {
      const FenceId fence = TRY(filler_->unmap(command.frame));
      frames_.erase(command.frame);
      return fence;
    }
    case WriterOp::copy:
      return filler_->copy(command.frame, command.offset,
                           source_of(command).subspan(command.source_offset, command.bytes),
                           {.stored = command.stored, .wanted = command.wanted, .scale = command.scale});
    case WriterOp::copy_frame: return filler_->copy_frame(command.frame, command.from);
    case WriterOp::checksum: return filler_->checksum(command.frame);
    case WriterOp::add_source: return start_source(command, descriptor);
    case WriterOp::drop_source: {
      const FenceId fence = TRY(filler_->drop_source(command.source));
      sources_.erase(command.source);
      return fence;
    }
    case WriterOp::stage:
    case WriterOp::ping: break;
  }
  return wrong("command");
}

void WriterLoop::tell_map_failure(const WriterCommand& command, FenceId own) {
  const std::optional<Error> failure = filler_->take_map_failure(own);
  if (!failure) return;
  frames_[command.frame].failure = *failure;
  answers_.push_back({.kind = WriterAnswerKind::map_failed,
                      .native = failure->native,
                      .fence = command.fence,
                      .frame = command.frame});
}

// Of the frames that a command is about, when there is one that could not be mapped.
const Error* WriterLoop::mapping_failure(const WriterCommand& command) const {
  const auto failure_of = [this](FrameId frame) -> const Error* {
    const std::optional<Error>& failure = frames_.at(frame).failure;
    return failure ? &*failure : nullptr;
  };
  switch (command.op) {
    case WriterOp::copy:
    case WriterOp::checksum: return failure_of(command.frame);
    case WriterOp::copy_frame: {
      const Error* const failure = failure_of(command.frame);
      return failure != nullptr ? failure : failure_of(command.from);
    }
    default: return nullptr;
  }
}

// The service asked before it could know of the failed mapping. Its fence is behind those before it, as always.
void WriterLoop::fail(const WriterCommand& command, const Error& error) {
  const FenceId before = in_flight_.empty() ? FenceId{} : in_flight_.back().own;
  const bool sum = command.op == WriterOp::checksum;
  in_flight_.push_back({.own = before, .theirs = command.fence, .checksum = sum, .failed = true});
  if (sum) return;
  answers_.push_back({.kind = WriterAnswerKind::copy_failed, .native = error.native, .fence = command.fence});
}

Result<FenceId> WriterLoop::start_map(const WriterCommand& command, UniqueFd& descriptor) {
  const auto use = command.fresh ? HostedFiller::Use::fill : HostedFiller::Use::read;
  const FenceId fence = TRY(filler_->map(command.frame, descriptor.get(), command.bytes, use));
  descriptor.reset();
  frames_[command.frame] = {.bytes = command.bytes, .writable = command.fresh, .failure = {}};
  return fence;
}

Result<> WriterLoop::check(const WriterCommand& command) const {
  if (!in_flight_.empty() && command.fence <= in_flight_.back().theirs) return wrong("order of fences");
  if (command.op == WriterOp::add_source || command.op == WriterOp::drop_source) return check_source(command);
  const auto frame = frames_.find(command.frame);
  if (command.op == WriterOp::map) {
    if (frame != frames_.end() || command.bytes == 0) return wrong("map");
    return {};
  }
  if (frame == frames_.end()) return wrong("frame");
  if (command.op == WriterOp::unmap) return {};
  if (command.op == WriterOp::copy) return check_copy(command);
  if (command.op != WriterOp::copy_frame) return {};
  const auto from = frames_.find(command.from);
  if (from == frames_.end() || !frame->second.writable || from->second.bytes != frame->second.bytes ||
      from == frame) {
    return wrong("copy of a frame");
  }
  return {};
}

Result<> WriterLoop::check_copy(const WriterCommand& command) const {
  const MappedFrame& frame = frames_.at(command.frame);
  const std::uint64_t staged = source_of(command).size();
  if (command.bytes > staged || command.source_offset > staged - command.bytes)
    return wrong("source of a copy");
  std::uint64_t bytes = command.bytes;
  if (command.stored != command.wanted) {
    if (!dtype_is_convertible(command.stored) || !dtype_is_convertible(command.wanted) ||
        bytes * 8 % dtype_bits(command.stored) != 0) {
      return wrong("conversion");
    }
    bytes = bytes * 8 / dtype_bits(command.stored) * dtype_bits(command.wanted) / 8;
  }
  if (!frame.writable || bytes > frame.bytes || command.offset > frame.bytes - bytes) return wrong("copy");
  return {};
}

Result<> WriterLoop::check_source(const WriterCommand& command) const {
  const bool adds = command.op == WriterOp::add_source;
  if (command.source == SourceId{} || sources_.contains(command.source) == adds) return wrong("source");
  if (adds && command.bytes == 0) return wrong("source");
  return {};
}

// Empty when it is not known.
std::span<const std::byte> WriterLoop::source_of(const WriterCommand& command) const {
  if (command.source == SourceId{}) return staging_.bytes();
  const auto source = sources_.find(command.source);
  return source == sources_.end() ? std::span<const std::byte>() : source->second.bytes();
}

Result<FenceId> WriterLoop::start_source(const WriterCommand& command, const UniqueFd& descriptor) {
  if (TRY(size_of(descriptor.get())) < command.bytes) return wrong("source");
  // Drivers page-lock only what may be written.
  Mapping memory =
      TRY(Mapping::shared(descriptor.get(), command.bytes, Access::read_write, 0, huge_page_bytes));
  const FenceId fence = TRY(filler_->add_source(command.source, memory.bytes(), descriptor.get()));
  sources_.emplace(command.source, std::move(memory));
  return fence;
}

Result<> WriterLoop::stage(const WriterCommand& command, const UniqueFd& descriptor) {
  if (staging_ || command.bytes == 0 || TRY(size_of(descriptor.get())) < command.bytes) return wrong("stage");
  staging_ = TRY(Mapping::shared(descriptor.get(), command.bytes, Access::read_write, 0, huge_page_bytes));
  return filler_->use_staging(staging_.bytes(), descriptor.get());
}

Result<> WriterLoop::answer_reached() {
  const FenceId own = TRY(filler_->reached());
  if (std::exchange(reached_, own) != own) filler_moved_ = true;
  FenceId done{};
  while (!in_flight_.empty() && in_flight_.front().own <= own) {
    const InFlight work = in_flight_.front();
    in_flight_.pop_front();
    done = work.theirs;
    if (!work.checksum) continue;
    const std::optional<Result<std::uint64_t>> sum =
        work.failed ? Error{Errc::exhausted, 0, "frame that is not mapped"}
                    : filler_->take_checksum(work.own);
    CHECK(sum);  // Its fence has been reached.
    // The filler may be lost since it said so.
    if (!*sum && sum->error().code == Errc::device) return sum->error();
    WriterAnswer answer{.kind = WriterAnswerKind::checksum, .fence = done};
    if (*sum) {
      answer.value = **sum;
    } else {
      answer.code = static_cast<std::uint8_t>(sum->error().code);
      answer.native = sum->error().native;
      answer.not_taken = 1;
    }
    answers_.push_back(answer);
  }
  if (done != FenceId{}) answers_.push_back({.kind = WriterAnswerKind::reached, .fence = done});
  return {};
}

Result<> WriterLoop::send_answers() {
  while (!answers_.empty()) {
    std::array<WriterAnswer, writer_answers_max> message;
    const std::size_t count = std::min(answers_.size(), message.size());
    std::copy_n(answers_.begin(), count, message.begin());
    const Result<> sent = channel_.send(std::span(message).first(count));
    if (!sent && (sent.error().code == Errc::busy || sent.error().code == Errc::exhausted)) return {};
    if (!sent) return sent;
    answers_.erase(answers_.begin(), answers_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return {};
}

}  // namespace penstock
