// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

namespace penstock::gpu_check {
namespace {

constexpr auto return_limit = std::chrono::seconds(5);

void insist_on(DriverCode code, const char* what) {
  if (code.ok()) return;
  std::fprintf(stderr, "%s: %s answered %d\n", what, code.call, code.native);
  std::exit(1);
}

}  // namespace

Scale& scale() {
  static Scale chosen;
  return chosen;
}

std::optional<Gpu> Gpu::open(Report& report) {
  OpenedVendor opened = open_vendor(scale().vendor, DriverLoading::load);
  if (opened.report.state == VendorState::usable) return Gpu(opened.gpus.front());
  report.skip(fmt::format("requires a usable {} GPU; the driver is {}: {}", gpu_vendor_name(scale().vendor),
                          vendor_state_name(opened.report.state), opened.report.detail));
  return std::nullopt;
}

std::optional<Gpu> Gpu::open() {
  Report unused;
  return open(unused);
}

DriverContext& Gpu::context() {
  if (!context_) {
    insist_on(driver_->open_context(context_), "context");
    insist_on(context_->enter(), "enter");
    insist_on(context_->make_stream(stream_), "stream");
  }
  return *context_;
}

StreamHandle Gpu::stream() {
  context();
  return stream_;
}

std::uint64_t Gpu::free_bytes() {
  DeviceMemoryFigures now;
  return context().memory_figures(now).ok() ? now.free_bytes : 0;
}

double Gpu::seconds_until_free(std::uint64_t bytes) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const auto passed = std::chrono::steady_clock::now() - start;
    if (free_bytes() >= bytes) return std::chrono::duration<double>(passed).count();
    if (passed > return_limit) return -1;
  }
}

Frame::Frame(Frame&& other) noexcept
    : driver_(other.driver_),
      bytes_(other.bytes_),
      handle_(other.handle_),
      at_(other.at_),
      has_handle_(std::exchange(other.has_handle_, false)),
      has_range_(std::exchange(other.has_range_, false)),
      is_mapped_(std::exchange(other.is_mapped_, false)) {}

DriverCode Frame::make() {
  const DriverCode code = driver_->create(bytes_, handle_);
  has_handle_ = code.ok();
  return code;
}

DriverCode Frame::import(int fd) {
  const DriverCode code = driver_->import_fd(fd, handle_);
  has_handle_ = code.ok();
  return code;
}

DriverCode Frame::map(MappedRights rights) {
  const DriverCode reserved = driver_->reserve(bytes_, natural_alignment(bytes_), at_);
  if (!reserved.ok()) return reserved;
  has_range_ = true;
  const DriverCode mapped = driver_->map(at_, bytes_, handle_);
  if (!mapped.ok()) return mapped;
  is_mapped_ = true;
  return driver_->set_access(at_, bytes_, rights);
}

DriverCode Frame::make_mapped() {
  const DriverCode made = make();
  return made.ok() ? map(MappedRights::read_write) : made;
}

DriverCode Frame::import_mapped(int fd, MappedRights rights) {
  const DriverCode imported = import(fd);
  return imported.ok() ? map(rights) : imported;
}

DriverCode Frame::unmap() {
  const DriverCode code = driver_->unmap(at_, bytes_);
  is_mapped_ = is_mapped_ && !code.ok();
  return code;
}

DriverCode Frame::release() {
  const DriverCode code = driver_->release(handle_);
  has_handle_ = has_handle_ && !code.ok();
  return code;
}

void Frame::give_back() {
  if (is_mapped_) static_cast<void>(unmap());
  if (has_handle_) static_cast<void>(release());
  if (has_range_) static_cast<void>(driver_->free_range(at_, bytes_));
  is_mapped_ = has_handle_ = has_range_ = false;
}

std::vector<std::byte> pattern(std::uint64_t seed, std::uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  std::uint64_t word = seed * 0x9e3779b97f4a7c15U + 1;
  for (std::byte& byte : out) {
    word ^= word << 13, word ^= word >> 7, word ^= word << 17;
    byte = static_cast<std::byte>(word | 1);  // Never zero.
  }
  return out;
}

bool fill(Gpu& gpu, const Frame& frame, std::uint64_t seed) {
  const std::vector<std::byte> bytes = pattern(seed, frame.bytes());
  DriverContext& context = gpu.context();
  return context.copy_in(frame.at(), bytes.data(), bytes.size(), gpu.stream()).ok() &&
         context.synchronize(gpu.stream()).ok();
}

std::vector<std::byte> content(Gpu& gpu, const Frame& frame) {
  std::vector<std::byte> bytes(frame.bytes());
  DriverContext& context = gpu.context();
  const bool done = context.copy_out(bytes.data(), frame.at(), bytes.size(), gpu.stream()).ok() &&
                    context.synchronize(gpu.stream()).ok();
  return done ? bytes : std::vector<std::byte>{};
}

bool holds(Gpu& gpu, const Frame& frame, std::uint64_t seed) {
  return content(gpu, frame) == pattern(seed, frame.bytes());
}

}  // namespace penstock::gpu_check
