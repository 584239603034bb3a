// SPDX-License-Identifier: Apache-2.0
// The GPU of an experiment, and frames on it, by the same driver seam that the service uses.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/device/gpu/vendor.hpp"
#include "tests/gpu/report.hpp"

namespace penstock::gpu_check {

// How much an experiment moves. The small one is for fake drivers.
struct Scale {
  GpuVendor vendor = GpuVendor::cuda;
  bool is_small = false;
  std::uint64_t frame_bytes = 32ull << 20;
  std::uint64_t frames = 64;    // Of what is measured in bulk.
  std::uint64_t held = 512;     // Frames that another process fills and leaves.
  std::uint64_t repeats = 200;  // Of single calls that are timed.
};
// As the program was called. Set before the first experiment.
Scale& scale();

class Gpu {
 public:
  // The first GPU of the vendor. Skips the experiment when there is none.
  static std::optional<Gpu> open(Report& report);
  // In a peer, which has no report.
  static std::optional<Gpu> open();

  GpuDriver& driver() const { return *driver_; }
  std::shared_ptr<GpuDriver> shared_driver() const { return driver_; }
  // Opened by the first call, for this thread. Ends the process when that fails.
  DriverContext& context();
  StreamHandle stream();
  std::uint64_t free_bytes();
  // Polls for at most five seconds. Seconds until so much is free; less than 0 when it did not come.
  double seconds_until_free(std::uint64_t bytes);

 private:
  explicit Gpu(std::shared_ptr<GpuDriver> driver) : driver_(std::move(driver)) {}

  std::shared_ptr<GpuDriver> driver_;
  std::unique_ptr<DriverContext> context_;
  StreamHandle stream_{};
};

// Memory that this process made or imported, and its mapping. What it has is given back at the end.
class Frame {
 public:
  explicit Frame(GpuDriver& driver, std::uint64_t bytes = scale().frame_bytes)
      : driver_(&driver), bytes_(bytes) {}
  ~Frame() { give_back(); }
  Frame(Frame&& other) noexcept;
  Frame& operator=(Frame&&) = delete;

  DriverCode make();
  DriverCode import(int fd);
  DriverCode export_fd(UniqueFd& fd) { return driver_->export_fd(handle_, fd); }
  DriverCode map(MappedRights rights);
  // Made and mapped to be written, or imported and mapped. The first code that is not ok.
  DriverCode make_mapped();
  DriverCode import_mapped(int fd, MappedRights rights);
  DriverCode unmap();
  DriverCode release();
  void give_back();

  DeviceAddress at() const { return at_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  GpuDriver* driver_;
  std::uint64_t bytes_;
  MemoryHandle handle_{};
  DeviceAddress at_{};
  bool has_handle_ = false, has_range_ = false, is_mapped_ = false;
};

// Bytes that tell frames apart.
std::vector<std::byte> pattern(std::uint64_t seed, std::uint64_t bytes = scale().frame_bytes);
bool fill(Gpu& gpu, const Frame& frame, std::uint64_t seed);
bool holds(Gpu& gpu, const Frame& frame, std::uint64_t seed);
std::vector<std::byte> content(Gpu& gpu, const Frame& frame);

template <class Call>
double seconds_of(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace penstock::gpu_check
