// SPDX-License-Identifier: Apache-2.0
// A host device whose frames are all populated ahead, and its thread, as benchmarks of the pager need them.
#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/device/host/host_device.hpp"
#include "dataplane/pager/dataplane_thread.hpp"
#include "tests/support/fixed_headroom.hpp"

namespace penstock::bench {

class BenchDevice {
 public:
  // Room for `bytes`, in frames of 8 MiB.
  explicit BenchDevice(std::uint64_t bytes);

  std::unique_ptr<DataplaneThread> start(const ReadStreamOptions& stream, std::uint64_t read_bytes);
  void open_table(DataplaneThread& thread, TableId table, const std::shared_ptr<CheckpointFile>& file);
  // Until every frame of the device is populated and nobody's.
  void wait_until_ready() const;
  double huge_fraction() const;
  HostDevice& device() { return *device_; }
  const std::shared_ptr<PageWords>& words() const { return words_; }

 private:
  FixedHeadroom headroom_;
  std::uint64_t frames_;
  std::shared_ptr<HostDevice> device_;
  std::shared_ptr<PageWords> words_;
};

// Waits for the answer to a request with the number 1; other news is dropped.
RequestDone ask_one(DataplaneThread& thread, PagerMail mail);
// Sends a request of the service and waits for its answer; other news is dropped.
template <class Request>
RequestDone ask(DataplaneThread& thread, Request request) {
  request.request = RequestId{1};
  return ask_one(thread, PagerMail(std::move(request)));
}

}  // namespace penstock::bench
