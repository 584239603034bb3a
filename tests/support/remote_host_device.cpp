// SPDX-License-Identifier: Apache-2.0
#include "tests/support/remote_host_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/base/units.hpp"

namespace penstock::test {

std::string program_path(const std::string& name) {
  const char* const build = std::getenv("PENSTOCK_BUILD_DIR");
  CHECK(build != nullptr);  // Set by ctest.
  return std::string(build) + "/bin/" + name;
}

DeviceLimits RemoteHostDevice::Owner::limits() const {
  DeviceLimits limits = frames_.limits();
  limits.frames_are_addressable = false;
  limits.tensor_alignment = 512;
  return limits;
}

RemoteHostDevice::RemoteHostDevice(const HostFrameOptions& frames, HeadroomSource& headroom,
                                   const RemoteFillerOptions& options, const std::string& kind)
    : frames_([&] {
        auto opened = HostFrameOwner::open(frames, headroom);
        CHECK(opened.has_value());
        return *std::move(opened);
      }()),
      owner_(*this) {
  auto program = WriterProgram::open(program_path("penstock-writer"), {kind});
  CHECK(program.has_value());
  auto filler = RemoteFiller::open(*std::move(program), options);
  CHECK(filler.has_value());
  writer_ = std::make_unique<RemoteFrameWriter>(*std::move(filler), *frames_, frames.frame_bytes);
}

void RemoteHostDevice::make_staging(std::uint64_t bytes) {
  auto file = create_memfd("staging", bytes);
  CHECK(file.has_value());
  auto memory = Mapping::shared(file->get(), bytes, Access::read_write);
  CHECK(memory.has_value());
  staging_file_ = *std::move(file);
  staging_ = *std::move(memory);
  CHECK(writer_->use_staging(staging_.bytes(), staging_file_.get()).has_value());
}

std::span<const std::byte> RemoteHostDevice::stage(std::span<const std::byte> bytes) {
  CHECK(bytes.size() <= staging_.size());
  if (bytes.size() > staging_.size() - staged_) staged_ = 0;
  const std::span<std::byte> place = staging_.bytes().subspan(staged_, bytes.size());
  std::ranges::copy(bytes, place.begin());
  staged_ += bytes.size();
  return place;
}

}  // namespace penstock::test
