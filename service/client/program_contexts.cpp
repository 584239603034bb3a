// SPDX-License-Identifier: Apache-2.0
#include "service/client/program_contexts.hpp"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::size_t known_max = 8;

}  // namespace

BorrowedContext::BorrowedContext(ProgramStreams& streams, DriverContext& context)
    : streams_(streams),
      context_(context),
      relaxed_(streams),
      device_(streams.current_device()),
      own_(context.is_current()),
      entered_(own_ ? DriverCode{} : context.enter_for_now()) {}

BorrowedContext::~BorrowedContext() {
  if (own_) return;
  if (entered_.ok()) context_.leave();
  streams_.set_current_device(device_);
}

std::shared_ptr<DriverContext> ProgramContexts::find() {
  const std::lock_guard lock(mutex_);
  const auto own = std::ranges::find_if(known_, [](const auto& one) { return one->is_current(); });
  if (own != known_.end()) {
    std::rotate(own, own + 1, known_.end());
    return known_.back();
  }
  std::unique_ptr<DriverContext> adopted;
  if (!driver_->adopt_context(adopted).ok()) {
    if (!known_.empty()) return known_.back();
    if (!driver_->adopt_primary_context(adopted).ok()) return nullptr;
  }
  // Who makes one after the other ends them, too.
  if (known_.size() == known_max) known_.erase(known_.begin());
  return known_.emplace_back(std::move(adopted));
}

void ProgramContexts::forget(const std::shared_ptr<DriverContext>& context) {
  const std::lock_guard lock(mutex_);
  std::erase(known_, context);
}

ProgramContexts::SeenCapture ProgramContexts::note_capture(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  auto& serial = captures_[stream];
  if (serial == 0) serial = ++last_serial_;
  return {stream, serial};
}

void ProgramContexts::note_no_capture(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  captures_.erase(stream);
}

bool ProgramContexts::lasts(const SeenCapture& capture) const {
  const std::lock_guard lock(mutex_);
  const auto found = captures_.find(capture.stream);
  return found != captures_.end() && found->second == capture.serial;
}

bool ProgramContexts::any_capture() const {
  const std::lock_guard lock(mutex_);
  return !captures_.empty();
}

void ProgramContexts::forget_captures() {
  const std::lock_guard lock(mutex_);
  captures_.clear();
}

}  // namespace penstock
