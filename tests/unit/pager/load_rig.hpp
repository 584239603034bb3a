// SPDX-License-Identifier: Apache-2.0
// A LoadPipeline over a plain device and a reader that is stepped by the test.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/pager/load_pipeline.hpp"
#include "tests/support/faulty_device.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/pager/plain_device.hpp"
#include "tests/unit/pager/step_reader.hpp"

namespace penstock::test {

struct LoadRigOptions {
  PlainDevice::Options device{};
  PinnedRingOptions ring{.slot_bytes = 16 * 1024, .slots = 8, .reserved_huge_pages = false};
  LoadPipelineOptions loads{.read_bytes_max = 16 * 1024, .bulk_bytes_ahead = 128 * 1024};
  std::uint64_t bulk_bytes_in_flight = 64 * 1024;
  std::shared_ptr<HostTier> tier{};
};

class LoadRig {
 public:
  explicit LoadRig(const LoadRigOptions& options = {});

  // A file of `bytes` patterned bytes, and its table with the identity layout.
  std::shared_ptr<CheckpointFile> file(std::uint64_t bytes, const char* name = "weights");
  std::shared_ptr<const TableSource> identity(std::uint64_t bytes);
  // Makes a frame and starts the load of the page into it.
  FrameId load(TableId table, std::uint32_t page, Urgency urgency = Urgency::bulk,
               Generation generation = Generation{1});
  // Polls until nothing more happens by itself.
  void settle();
  // What ended since the last call.
  std::vector<Loaded> take_loaded() { return std::exchange(loaded_, {}); }
  // True when exactly one load ended since the last call, and well.
  bool loaded_one_well();
  std::vector<std::byte> content(FrameId frame);

  TemporaryFolder folder;
  PlainDevice device;
  FaultyDevice checked;
  StepReader* reader;
  std::unique_ptr<LoadPipeline> pipeline;

 private:
  std::shared_ptr<HostTier> tier_;
  Nanoseconds now_{1};
  std::vector<Loaded> loaded_;
};

// `patterned` bytes [offset, offset + bytes), as many as lie before `end`; zeros behind.
std::vector<std::byte> expected_bytes(std::uint64_t offset, std::uint64_t bytes, std::uint64_t end);

}  // namespace penstock::test
