// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pager/load_rig.hpp"

#include <array>
#include <utility>

#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/safetensors_file.hpp"

namespace penstock::test {
namespace {

constexpr int rounds_max = 200;

}  // namespace

std::vector<std::byte> expected_bytes(std::uint64_t offset, std::uint64_t bytes, std::uint64_t end) {
  std::vector<std::byte> expected(bytes);
  for (std::uint64_t at = 0; at < bytes && offset + at < end; ++at) expected[at] = patterned(offset + at);
  return expected;
}

LoadRig::LoadRig(const LoadRigOptions& options)
    : device(options.device), checked(device.owner(), device.writer()), tier_(options.tier) {
  auto ring = PinnedRing::make(options.ring);
  CHECK(ring);
  auto stepped = std::make_unique<StepReader>();
  reader = stepped.get();
  auto stream =
      ReadStream::make(std::move(stepped), {}, {.bulk_bytes_in_flight = options.bulk_bytes_in_flight});
  CHECK(stream);
  pipeline = std::make_unique<LoadPipeline>(
      *std::move(ring), *std::move(stream), checked.writer(), checked.owner().limits(), options.loads,
      TierAccess{.tier = tier_, .user = tier_ ? *tier_->add_user() : 0});
}

std::shared_ptr<CheckpointFile> LoadRig::file(std::uint64_t bytes, const char* name) {
  auto opened = CheckpointFile::open(folder.write(name, expected_bytes(0, bytes, bytes)));
  CHECK(opened);
  return *std::move(opened);
}

std::shared_ptr<const TableSource> LoadRig::identity(std::uint64_t bytes) {
  return std::make_shared<const TableSource>(TableSource{
      .layout = PageLayout::identity(bytes, checked.owner().limits().frame_bytes), .files = {file(bytes)}});
}

FrameId LoadRig::load(TableId table, std::uint32_t page, Urgency urgency, Generation generation) {
  checked.owner().create(0);
  std::array<CreateDone, 1> done;
  CHECK(checked.owner().reap(done) == 1 && done[0].result == CreateResult::created);
  CHECK(checked.writer().attach(done[0].frame));
  pipeline->load({.page = {.table = table, .index = page},
                  .generation = generation,
                  .frame = done[0].frame,
                  .urgency = urgency});
  return done[0].frame;
}

void LoadRig::settle() {
  for (int round = 0; round < rounds_max; ++round) {
    if (tier_ && tier_->stats().awaited_frames > 0) CHECK(wait_readable(tier_->frames_fd()));
    const Result<FenceId> reached = checked.writer().reached();
    now_ += std::chrono::milliseconds(1);
    pipeline->poll(now_, reached ? *reached : FenceId{}, loaded_);
  }
}

bool LoadRig::loaded_one_well() {
  settle();
  const std::vector<Loaded> loaded = take_loaded();
  return loaded.size() == 1 && loaded[0].ok;
}

std::vector<std::byte> LoadRig::content(FrameId frame) {
  const Result<ExportedFrame> shared = checked.owner().share(frame, FrameAccess::shared_read_only);
  CHECK(shared);
  std::vector<std::byte> bytes(checked.owner().limits().frame_bytes);
  CHECK(::pread(shared->get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return bytes;
}

}  // namespace penstock::test
