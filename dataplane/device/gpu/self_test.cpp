// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/self_test.hpp"

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>

namespace penstock {
namespace {

constexpr std::uint64_t sample_bytes = 64 * 1024;  // Written to and read from each end of the frame.
// Of the whole, when bytes do not come back: other processes allocate meanwhile.
constexpr int rounds_max = 3;
// Drivers may give memory back a little later than they say.
constexpr auto return_limit = std::chrono::milliseconds(300);
constexpr auto return_poll = std::chrono::milliseconds(1);
// Both vendors' numbers; the first is what MIG slices and confidential computing answer.
constexpr std::int32_t not_permitted = 800, not_supported = 801;

// One run. Each step is tried only if all before it went well; the destructor undoes what was done.
class SelfTest {
 public:
  SelfTest(GpuDriver& driver, std::uint64_t frame_bytes) : driver_(driver), bytes_(frame_bytes) {}
  ~SelfTest() { undo(); }
  SelfTest(const SelfTest&) = delete;
  SelfTest& operator=(const SelfTest&) = delete;

  SelfTestReport run();

 private:
  bool step(const char* name, DriverCode code);
  bool make_and_map();
  bool write_and_read();
  bool give_back();
  bool copy_sample(std::uint64_t offset);
  std::uint64_t free_bytes();
  bool comes_back(std::uint64_t free_before);
  void undo();
  bool make_and_map_steps();

  GpuDriver& driver_;
  const std::uint64_t bytes_;
  SelfTestReport report_;
  std::unique_ptr<DriverContext> context_;
  StreamHandle stream_{};
  MemoryHandle made_{}, imported_{};
  UniqueFd fd_;
  DeviceAddress range_{};
  bool has_stream_ = false, has_made_ = false, has_imported_ = false, has_range_ = false, is_mapped_ = false;
  std::uint64_t free_while_used_ = 0;
};

bool SelfTest::step(const char* name, DriverCode code) {
  report_.steps.push_back({.name = name, .code = code});
  if (!code.ok() && report_.problem.empty()) {
    report_.problem =
        fmt::format("{}: {} answered {} ({})", name, code.call, code.native, driver_code_name(code.native));
    report_.lacked_memory = classify(code) == DriverClass::pressure;
  }
  return code.ok();
}

SelfTestReport SelfTest::run() {
  report_.passed = step("context", driver_.open_context(context_)) &&
                   step("memory", context_->memory_figures(report_.memory)) &&
                   step("stream", context_->make_stream(stream_)) && (has_stream_ = true) && make_and_map() &&
                   write_and_read() && give_back();
  return std::move(report_);
}

bool SelfTest::make_and_map() {
  if (make_and_map_steps()) return true;
  const std::int32_t native = report_.steps.back().code.native;
  report_.cannot_share = native == not_permitted || native == not_supported;
  return false;
}

bool SelfTest::make_and_map_steps() {
  if (!step("create", driver_.create(bytes_, made_))) return false;
  has_made_ = true;
  if (!step("export", driver_.export_fd(made_, fd_))) return false;
  if (!step("import", driver_.import_fd(fd_.get(), imported_))) return false;
  has_imported_ = true;
  if (!step("reserve", driver_.reserve(bytes_, natural_alignment(bytes_), range_))) return false;
  has_range_ = true;
  if (!step("map", driver_.map(range_, bytes_, imported_))) return false;
  is_mapped_ = true;
  // Read-only first, as clients map, and never written through: that would kill the context.
  return step("access read", driver_.set_access(range_, bytes_, MappedRights::read)) &&
         step("access write", driver_.set_access(range_, bytes_, MappedRights::read_write));
}

bool SelfTest::copy_sample(std::uint64_t offset) {
  const std::uint64_t size = std::min(sample_bytes, bytes_);
  std::vector<unsigned char> out(size), in(size);
  for (std::uint64_t at = 0; at < size; ++at) out[at] = static_cast<unsigned char>((at + offset) * 167 >> 3);
  const DeviceAddress target = range_ + offset;
  if (!step("read", context_->copy_out(in.data(), target, size, stream_))) return false;
  if (!step("wait", context_->synchronize(stream_))) return false;
  report_.was_zero =
      report_.was_zero && std::ranges::all_of(in, [](unsigned char byte) { return byte == 0; });
  if (!step("write", context_->copy_in(target, out.data(), size, stream_))) return false;
  if (!step("read", context_->copy_out(in.data(), target, size, stream_))) return false;
  if (!step("wait", context_->synchronize(stream_))) return false;
  if (in == out) return true;
  report_.problem = fmt::format("the frame does not hold what was written to it at {}", offset);
  return false;
}

bool SelfTest::write_and_read() {
  report_.was_zero = true;
  const std::uint64_t last = bytes_ - std::min(sample_bytes, bytes_);
  return copy_sample(0) && (last == 0 || copy_sample(last));
}

bool SelfTest::give_back() {
  free_while_used_ = free_bytes();
  if (!step("unmap", driver_.unmap(range_, bytes_))) return false;
  is_mapped_ = false;
  if (!step("release import", driver_.release(imported_))) return false;
  has_imported_ = false;
  if (!step("release", driver_.release(made_))) return false;
  has_made_ = false;
  fd_.reset();
  const bool returned = comes_back(free_while_used_);
  if (!step("free range", driver_.free_range(range_, bytes_))) return false;
  has_range_ = false;
  if (returned) return true;
  report_.returns_only_with_range = comes_back(free_while_used_);
  report_.problem = report_.returns_only_with_range ? "memory comes back only when its address range is freed"
                                                    : "the bytes of a released frame did not come back";
  return false;
}

// Half a frame of tolerance, since drivers keep small things of their own.
bool SelfTest::comes_back(std::uint64_t free_before) {
  const auto bound = std::chrono::steady_clock::now() + return_limit;
  while (free_bytes() < free_before + bytes_ / 2) {
    if (std::chrono::steady_clock::now() > bound) return false;
    std::this_thread::sleep_for(return_poll);
  }
  return true;
}

std::uint64_t SelfTest::free_bytes() {
  DeviceMemoryFigures now;
  return context_->memory_figures(now).ok() ? now.free_bytes : 0;
}

void SelfTest::undo() {
  if (is_mapped_) static_cast<void>(driver_.unmap(range_, bytes_));
  if (has_imported_) static_cast<void>(driver_.release(imported_));
  if (has_made_) static_cast<void>(driver_.release(made_));
  if (has_range_) static_cast<void>(driver_.free_range(range_, bytes_));
  if (has_stream_) static_cast<void>(context_->destroy_stream(stream_));
}

}  // namespace

SelfTestReport run_self_test(GpuDriver& driver, std::uint64_t frame_bytes) {
  SelfTestReport report;
  bool each_time = true;
  for (int round = 0; round < rounds_max; ++round) {
    report = SelfTest(driver, frame_bytes).run();
    if (report.passed || !report.steps.back().code.ok()) return report;
    each_time = each_time && report.returns_only_with_range;
  }
  // Found once it may have been somebody else, who gave memory back just then.
  report.returns_only_with_range = report.cannot_share = each_time;
  return report;
}

SelfTestReport run_self_test_within(std::shared_ptr<GpuDriver> driver, std::uint64_t frame_bytes,
                                    std::chrono::milliseconds limit) {
  std::promise<SelfTestReport> promise;
  std::future<SelfTestReport> report = promise.get_future();
  std::thread([driver = std::move(driver), frame_bytes, promise = std::move(promise)]() mutable {
    ::pthread_setname_np(::pthread_self(), "penstock-test");
    promise.set_value(run_self_test(*driver, frame_bytes));
  }).detach();
  if (report.wait_for(limit) == std::future_status::ready) return report.get();
  SelfTestReport hung;
  hung.problem = fmt::format("the driver did not answer within {} ms", limit.count());
  return hung;
}

}  // namespace penstock
