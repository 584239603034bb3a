// SPDX-License-Identifier: Apache-2.0
#include "service/client/table_copy.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace penstock {
namespace {

Failure refused(const GpuDescription& gpu, DriverCode code, const char* what, std::uint64_t bytes) {
  const std::string told =
      fmt::format("{} of {} on {}: {} answered {} ({})", what, format_bytes(bytes), gpu.identity.id,
                  code.call, driver_code_name(code.native), code.native);
  if (classify(code) == DriverClass::pressure) {
    return {FailureKind::exhausted, told,
            "memory of this GPU can't be shared, so that each process needs room for the whole table there"};
  }
  return {FailureKind::device_unhealthy, told, "is the context that the table was opened in still alive?"};
}

// Of so many pages at once: fewer may find it.
bool lacks_room(FailureKind kind) {
  switch (kind) {
    case FailureKind::offloaded:
    case FailureKind::never_fits:
    case FailureKind::pinned:
    case FailureKind::headroom:
    case FailureKind::exhausted: return true;
    default: return false;
  }
}

}  // namespace

// The calling thread, in the copy's context until the end of the scope.
class TableCopy::Borrowed {
 public:
  explicit Borrowed(const PlainGpu& gpu)
      : errors_(*gpu.gpu.streams),
        gpu_(gpu),
        relaxed_(*gpu.gpu.streams),
        device_(gpu.gpu.streams->current_device()),
        entered_(gpu.context->enter_for_now()) {}
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (entered_.ok()) gpu_.context->leave();
    gpu_.gpu.streams->set_current_device(device_);
  }
  DriverCode entered() const { return entered_; }

 private:
  const OwnErrors errors_;  // The first, so that it ends last.
  const PlainGpu& gpu_;
  const RelaxedCaptures relaxed_;
  const int device_;
  const DriverCode entered_;
};

// One thread fills at a time, so that no page is written again under those who read it.
class TableCopy::Turn {
 public:
  explicit Turn(TableCopy& copy) : copy_(copy) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (!taken_) return;
    {
      const std::lock_guard lock(copy_.mutex_);
      copy_.filling_ = false;
    }
    copy_.turn_ended_.notify_all();
  }
  bool take(Nanoseconds deadline) {
    std::unique_lock lock(copy_.mutex_);
    const auto is_free = [&] { return !copy_.filling_; };
    if (deadline == never) {
      copy_.turn_ended_.wait(lock, is_free);
    } else if (!copy_.turn_ended_.wait_until(lock, std::chrono::steady_clock::time_point(deadline),
                                             is_free)) {
      return false;
    }
    return taken_ = copy_.filling_ = true;
  }

 private:
  TableCopy& copy_;
  bool taken_ = false;
};

Outcome<std::shared_ptr<TableCopy>> TableCopy::create(const PlainGpu& gpu, const Size& size) {
  DeviceAddress base{};
  const std::uint64_t bytes = std::max<std::uint64_t>(size.bytes, 1);
  const OwnErrors errors(*gpu.gpu.streams);
  static_cast<void>(gpu.gpu.contexts->find());  // It is known from now on.
  const Borrowed borrowed(gpu);
  DriverCode code = borrowed.entered();
  if (code.ok()) code = gpu.context->allocate(bytes, base);
  if (!code.ok()) return tl::unexpected(refused(gpu.gpu.driver->description(), code, "a copy", bytes));
  return std::shared_ptr<TableCopy>(new TableCopy(gpu, size, base));
}

TableCopy::~TableCopy() {
  {
    const Borrowed borrowed(gpu_);
    // A context that is over has taken its memory along.
    if (borrowed.entered().ok()) static_cast<void>(insist([&] { return gpu_.context->free(base_); }));
  }
  if (freed_) freed_();
}

bool TableCopy::ready(PageSpan span) const {
  const auto first = ready_.begin() + span.first;
  return std::all_of(first, first + span.count,
                     [](const auto& page) { return page.load(std::memory_order_acquire); });
}

Outcome<void> TableCopy::fill(PageSpan span, const PageSource& source, Nanoseconds deadline) {
  if (ready(span)) return {};
  Turn turn(*this);
  if (!turn.take(deadline))
    return fail(FailureKind::deadline, "another thread is still copying the table to the GPU");
  const auto run_pages =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(size_.run_bytes / size_.page_bytes, 1));
  for (std::uint32_t first = span.first; first != span.end();) {
    if (ready({first, 1})) {
      ++first;
      continue;
    }
    PageSpan run{first, 1};
    while (run.count < run_pages && run.end() != span.end() && !ready({run.end(), 1})) ++run.count;
    auto filled = fill_run(run, source);
    while (!filled && run.count > 1 && lacks_room(filled.error().kind)) {
      run.count /= 2;
      filled = fill_run(run, source);
    }
    if (!filled) return filled;
    for (std::uint32_t page = run.first; page != run.end(); ++page)
      ready_[page].store(true, std::memory_order_release);
    first = run.end();
  }
  return {};
}

Outcome<void> TableCopy::fill_run(PageSpan run, const PageSource& source) const {
  if (auto pinned = source.pin(run); !pinned) return pinned;  // All or nothing.
  const DriverCode code = copy(run, source.address + run.first * size_.page_bytes);
  source.unpin(run);
  if (code.ok()) return {};
  return tl::unexpected(refused(gpu(), code, "copying pages", run.count * size_.page_bytes));
}

// The driver stages memory that is not page-locked for it: locking a page costs more than the one copy that is made of it.
DriverCode TableCopy::copy(PageSpan run, const std::byte* from) const {
  const Borrowed borrowed(gpu_);
  if (!borrowed.entered().ok()) return borrowed.entered();
  DriverContext& context = *gpu_.context;
  const std::uint64_t offset = run.first * size_.page_bytes;
  const std::uint64_t bytes = std::min(run.count * size_.page_bytes, size_.bytes - offset);
  // One that nothing else is queued on, and that no capture waits for.
  StreamHandle stream{};
  DriverCode code = context.make_stream(stream);
  if (!code.ok()) return code;
  code = context.copy_in(base_ + offset, from, bytes, stream);
  const DriverCode waited = context.synchronize(stream);
  if (code.ok()) code = waited;
  static_cast<void>(insist([&] { return context.destroy_stream(stream); }));
  return code;
}

void TableCopy::pin(PageSpan span) {
  for (std::uint32_t page = span.first; page != span.end(); ++page)
    pins_[page].fetch_add(1, std::memory_order_relaxed);
}

bool TableCopy::unpin(PageSpan span) {
  for (std::uint32_t page = span.first; page != span.end(); ++page) {
    std::uint32_t pins = pins_[page].load(std::memory_order_relaxed);
    do {
      if (pins == 0) return false;
    } while (!pins_[page].compare_exchange_weak(pins, pins - 1, std::memory_order_relaxed));
  }
  return true;
}

bool TableCopy::pinned(PageSpan span) const {
  const auto first = pins_.begin() + span.first;
  return std::all_of(first, first + span.count,
                     [](const auto& page) { return page.load(std::memory_order_relaxed) > 0; });
}

void TableCopy::note_work(void* stream) {
  static_cast<void>(work_.note({0, 1}, StreamHandle{reinterpret_cast<std::uintptr_t>(stream)}));
}

Ending TableCopy::ending() {
  if (gpu_.gpu.contexts->any_capture()) return Ending::unknown;
  {
    const Borrowed borrowed(gpu_);
    bool capturing = false;
    const bool asked =
        borrowed.entered().ok() && gpu_.gpu.streams->is_capturing(StreamHandle{}, capturing).ok();
    if (asked && capturing) return Ending::later;
  }
  return work_.ending();
}

Result<> TableCopy::copy_out(std::uint64_t offset, std::uint64_t bytes, void* to, void* stream) const {
  return copy_to_host(*gpu_.gpu.streams, base_ + offset, bytes, to, stream);
}

}  // namespace penstock
