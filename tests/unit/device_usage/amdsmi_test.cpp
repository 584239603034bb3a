// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/amdsmi_library.hpp"

#include <memory>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "dataplane/device/usage/amd_source.hpp"
#include "tests/fakes/amdsmi/fake_amdsmi.hpp"
#include "tests/support/literal_tree.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t at_03 = 0x03 << 8, at_83 = 0x83 << 8 | 1ull << 16;  // The second one in domain 1.

class AmdSmiTest : public testing::Test {
 protected:
  AmdSmiTest() {
    void* const library = ::dlopen(FAKE_AMDSMI, RTLD_NOW);
    fake_ = reinterpret_cast<decltype(&fake_amdsmi)>(::dlsym(library, "fake_amdsmi"))();
    *fake_ = {};
    fake_->sockets = {{{.address = at_03, .total_bytes = 1000, .used_bytes = 600}},
                      {{.address = at_83, .total_bytes = 2000, .used_bytes = 1}}};
    source_ = std::make_unique<AmdSource>(tree_.path() + "/sys", tree_.path() + "/proc", FAKE_AMDSMI);
  }
  ~AmdSmiTest() override {
    source_.reset();
    EXPECT_EQ(fake_->initialised, 0);
  }
  void write_device(const std::string& pci, std::string_view total) const {
    tree_.write("sys/bus/pci/drivers/amdgpu/" + pci + "/mem_info_vram_total", total);
    tree_.write("sys/bus/pci/drivers/amdgpu/" + pci + "/mem_info_vram_used", "5\n");
  }

  const LiteralTree tree_;
  FakeAmdSmi* fake_ = nullptr;
  std::unique_ptr<AmdSource> source_;
};

TEST_F(AmdSmiTest, TellsWhereTheKernelsFilesAreHidden) {
  const auto devices = source_->read().value();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].pci, (PciAddress{.domain = 0, .bus = 3, .device = 0, .function = 0}));
  EXPECT_EQ(devices[0].total_bytes, 1000u);
  EXPECT_EQ(devices[0].used_bytes, 600u);
  EXPECT_EQ(devices[1].pci, (PciAddress{.domain = 1, .bus = 0x83, .device = 0, .function = 0}));
  EXPECT_FALSE(devices[0].knows_processes);
}

TEST_F(AmdSmiTest, FillsInOneDeviceThatIsUnreadable) {
  write_device("0000:03:00.0", "nothing");
  write_device("0001:83:00.0", "7000\n");
  const auto devices = source_->read().value();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].health, UsageHealth::readable);
  EXPECT_EQ(devices[0].total_bytes, 1000u);
  EXPECT_EQ(devices[1].total_bytes, 7000u);
}

TEST_F(AmdSmiTest, IsNotAskedWhereTheFilesTell) {
  write_device("0000:03:00.0", "7000\n");
  fake_->init_answer = 34;
  EXPECT_EQ(source_->read().value().size(), 1u);
}

TEST_F(AmdSmiTest, AGpuThatRefusesIsUnreadable) {
  fake_->sockets[1][0].answer = 2;
  const auto devices = source_->read().value();
  EXPECT_EQ(devices[0].health, UsageHealth::readable);
  EXPECT_EQ(devices[1].health, UsageHealth::unreadable);
  EXPECT_EQ(devices[1].native, 2);
}

TEST_F(AmdSmiTest, IsOpenedAnewAfterAFailure) {
  ASSERT_TRUE(source_->read());
  fake_->sockets_answer = 3;
  EXPECT_EQ(source_->read().error().code, Errc::not_found);
  EXPECT_EQ(fake_->initialised, 0);
  fake_->sockets_answer = amdsmi_success;
  EXPECT_TRUE(source_->read());
}

TEST_F(AmdSmiTest, IsAbsentWithoutLibraryOrDriver) {
  EXPECT_EQ(AmdSmi::open("libamd_smi.so.of-nobody").error().code, Errc::not_found);
  fake_->init_answer = 34;
  EXPECT_EQ(source_->read().error().code, Errc::not_found);
}

}  // namespace
}  // namespace penstock::test
