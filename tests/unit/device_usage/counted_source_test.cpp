// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/counted_source.hpp"

#include <gtest/gtest.h>

namespace penstock::test {
namespace {

class TwoGpus final : public UsageSource {
 public:
  std::string_view name() const override { return "two"; }
  Result<std::vector<DeviceUsage>> read() override {
    if (fails) return Error{Errc::device, 999, "two"};
    std::vector<DeviceUsage> devices(2);
    devices[0].uuid = {1};
    devices[1].uuid = {2};
    return devices;
  }
  bool fails = false;
};

TEST(CountedSource, TellsWhatMayHaveBeenOursWhileTheReadingWasMade) {
  GpuIdentity second, missing;
  second.uuid = {2};
  missing.uuid = {3};
  missing.pci.bus = 9;
  int calls = 0;
  const auto moving = [&calls] { return ++calls == 1 ? FrameBytes{40, 60} : FrameBytes{50, 90}; };
  CountedSource source(std::make_unique<TwoGpus>(),
                       {{second, moving}, {missing, [] { return FrameBytes{}; }}});
  EXPECT_EQ(source.name(), "two");
  const auto devices = source.read();
  ASSERT_TRUE(devices);
  EXPECT_EQ((*devices)[0].frames, std::nullopt);
  EXPECT_EQ((*devices)[1].frames, (FrameBytes{40, 90}));
}

TEST(CountedSource, PassesFailuresOn) {
  auto failing = std::make_unique<TwoGpus>();
  failing->fails = true;
  CountedSource source(std::move(failing), {});
  const auto devices = source.read();
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().native, 999);
}

}  // namespace
}  // namespace penstock::test
