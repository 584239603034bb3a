// SPDX-License-Identifier: Apache-2.0
// ScriptedGpuDriver: a GpuDriver whose memory is handles and descriptors of nothing. Answers what a test has scripted,
// hangs while a test wants it to, and counts what is not given back. It maps nothing and opens no context.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "dataplane/device/gpu/gpu_driver.hpp"

namespace penstock {

class ScriptedGpuDriver final : public GpuDriver {
 public:
  ScriptedGpuDriver();

  // The next `times` calls of "create", "export" or "release" answer `native` and do nothing.
  void refuse(const std::string& call, std::int32_t native, int times = 1);
  // Calls of it do not return, until let_go.
  void hang(const std::string& call);
  void let_go();
  // True once a call hangs.
  bool is_hanging() const;
  std::uint64_t live_handles() const;
  int calls(const std::string& call) const;
  bool was_called_by(std::thread::id thread) const;

  const GpuDescription& description() const override { return description_; }
  DriverCode create(std::uint64_t bytes, MemoryHandle& made) override;
  DriverCode export_fd(MemoryHandle handle, UniqueFd& exported) override;
  DriverCode release(MemoryHandle handle) override;
  DriverCode import_fd(int, MemoryHandle&) override { return not_supported(); }
  bool imports_at_once() const override { return true; }
  DriverCode reserve(std::uint64_t, std::uint64_t, DeviceAddress&) override { return not_supported(); }
  DriverCode map(DeviceAddress, std::uint64_t, MemoryHandle) override { return not_supported(); }
  DriverCode set_access(DeviceAddress, std::uint64_t, MappedRights) override { return not_supported(); }
  DriverCode unmap(DeviceAddress, std::uint64_t) override { return not_supported(); }
  DriverCode free_range(DeviceAddress, std::uint64_t) override { return not_supported(); }
  DriverCode open_context(std::unique_ptr<DriverContext>&) override { return not_supported(); }
  DriverCode adopt_context(std::unique_ptr<DriverContext>&) override { return not_supported(); }
  DriverCode adopt_primary_context(std::unique_ptr<DriverContext>&) override { return not_supported(); }

 private:
  struct Refusal {
    std::int32_t native = 0;
    int times = 0;
  };

  static DriverCode not_supported() { return {801, "scripted"}; }
  // What to answer at once, 0 to go on; hangs here.
  std::int32_t enter(const std::string& call);

  const GpuDescription description_;
  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::map<std::string, Refusal> refusals_;
  std::map<std::string, int> calls_;
  std::set<std::thread::id> callers_;
  std::set<MemoryHandle> live_;
  std::string hanging_;
  int in_hang_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace penstock
