// SPDX-License-Identifier: Apache-2.0
#include "service/client/program_contexts.hpp"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::size_t known_max = 8;

}  // namespace

BorrowedContext::BorrowedContext(ProgramStreams& streams, DriverContext& context)
    : errors_(streams),
      streams_(streams),
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
  {
    const std::lock_guard lock(mutex_);
    std::erase(known_, context);
  }
  note_death(*context);
}

class ProgramContexts::SeenCapture {
 public:
  bool over = false;
  std::shared_ptr<WorkMark> behind;
};

ProgramContexts::StreamKey ProgramContexts::key_of(const std::shared_ptr<DriverContext>& context,
                                                   StreamHandle stream) {
  constexpr StreamHandle of_this_thread{2};  // CU_STREAM_PER_THREAD, and HIP's.
  return {context, stream, stream == of_this_thread ? std::this_thread::get_id() : std::thread::id()};
}

std::shared_ptr<ProgramContexts::SeenCapture> ProgramContexts::note_capture(
    const std::shared_ptr<DriverContext>& context, StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  auto& capture = captures_[key_of(context, stream)];
  if (!capture) capture = std::make_shared<SeenCapture>();
  return capture;
}

void ProgramContexts::note_no_capture(const std::shared_ptr<DriverContext>& context, StreamHandle stream,
                                      const std::shared_ptr<WorkMark>& behind) {
  const std::lock_guard lock(mutex_);
  const auto found = captures_.find(key_of(context, stream));
  if (found == captures_.end()) return;
  found->second->over = true;
  found->second->behind = behind;
  captures_.erase(found);
}

void ProgramContexts::note_death(const DriverContext& context) {
  const std::lock_guard lock(mutex_);
  std::erase_if(captures_, [&](const auto& one) {
    const bool died = std::get<0>(one.first).get() == &context;
    if (died) one.second->over = true;
    return died;
  });
}

std::optional<std::shared_ptr<WorkMark>> ProgramContexts::end_of(const SeenCapture& capture) const {
  const std::lock_guard lock(mutex_);
  if (!capture.over) return std::nullopt;
  return capture.behind;
}

bool ProgramContexts::any_capture() const {
  const std::lock_guard lock(mutex_);
  return !captures_.empty();
}

void ProgramContexts::forget_captures() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, capture] : captures_) capture->over = true;
  captures_.clear();
}

}  // namespace penstock
