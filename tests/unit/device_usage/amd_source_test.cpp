// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/amd_source.hpp"

#include <cerrno>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "dataplane/device/usage/amd_processes.hpp"
#include "dataplane/device/usage/kernel_text.hpp"
#include "dataplane/device/usage/usage_figures.hpp"
#include "tests/support/literal_tree.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t mib = 1 << 20;

std::string fdinfo(int client, const std::string& memory, const std::string& pdev = "0000:03:00.0") {
  return "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t" + std::to_string(client) +
         "\ndrm-pdev:\t" + pdev + "\n" + memory;
}

class AmdSourceTest : public testing::Test {
 protected:
  AmdSourceTest() {
    add_device("0000:83:00.0", "2097152000", "1048576");
    add_device("0000:03:00.0", "1048576000", "524288000");
    tree_.write("sys/bus/pci/drivers/amdgpu/module", "");
    tree_.make_folder("proc");
  }

  void add_device(const std::string& pci, std::string_view total, std::string_view used) {
    const std::string folder = "sys/bus/pci/drivers/amdgpu/" + pci;
    tree_.write(folder + "/mem_info_vram_total", std::string(total) + "\n");
    tree_.write(folder + "/mem_info_vram_used", std::string(used) + "\n");
  }
  void open_file(int pid, int fd, const std::string& target, const std::string& info) {
    const std::string process = "proc/" + std::to_string(pid);
    tree_.write(process + "/fdinfo/" + std::to_string(fd), info);
    std::filesystem::create_directories(tree_.path() + "/" + process + "/fd");
    std::filesystem::create_symlink(target, tree_.path() + "/" + process + "/fd/" + std::to_string(fd));
  }
  std::vector<DeviceUsage> read() {
    return AmdSource(tree_.path() + "/sys", tree_.path() + "/proc", "libamd_smi.so.of-nobody").read().value();
  }

  const LiteralTree tree_;
};

TEST_F(AmdSourceTest, ReadsTheMemoryOfEachDevice) {
  const auto devices = read();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].vendor, GpuVendor::hip);
  EXPECT_EQ(devices[0].pci.bus, 0x03);
  EXPECT_EQ(devices[0].total_bytes, 1000 * mib);
  EXPECT_EQ(devices[0].used_bytes, 500 * mib);
  EXPECT_EQ(devices[1].pci.bus, 0x83);
  EXPECT_TRUE(devices[1].knows_processes);
  EXPECT_TRUE(devices[1].processes.empty());
}

TEST_F(AmdSourceTest, AttributesOpenFilesOncePerClient) {
  open_file(70, 5, "/dev/dri/renderD128", fdinfo(1, "drm-memory-vram:\t2048 KiB\n"));
  open_file(70, 6, "/dev/dri/renderD128", fdinfo(1, "drm-memory-vram:\t2048 KiB\n"));
  open_file(70, 7, "/dev/dri/card0", fdinfo(2, "drm-memory-vram:\t1 MiB\n"));
  open_file(70, 8, "/dev/dri/renderD129", fdinfo(1, "drm-memory-vram:\t4 MiB\n", "0000:83:00.0"));
  // A child that inherited the first file, and a file that only pretends.
  open_file(71, 5, "/dev/dri/renderD128", fdinfo(1, "drm-memory-vram:\t2048 KiB\n"));
  open_file(72, 5, "/tmp/file", fdinfo(9, "drm-memory-vram:\t2048 KiB\n"));
  const auto devices = read();
  EXPECT_EQ(devices[0].processes, (std::vector<ProcessUsage>{{70, 3 * mib}}));
  EXPECT_EQ(devices[1].processes, (std::vector<ProcessUsage>{{70, 4 * mib}}));
}

TEST_F(AmdSourceTest, TakesTheGreaterOfComputeAndOpenFiles) {
  tree_.write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
  tree_.write("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51011\n");
  tree_.write("sys/class/kfd/kfd/topology/nodes/1/properties",
              "cpu_cores_count 0\nlocation_id 768\ndomain 0\n");
  tree_.write("sys/class/kfd/kfd/proc/70/vram_51011", "5242880\n");
  tree_.write("sys/class/kfd/kfd/proc/71/vram_51011", "1048576\n");
  tree_.write("sys/class/kfd/kfd/proc/72/vram_51011", "0\n");
  open_file(70, 5, "/dev/dri/renderD128", fdinfo(1, "drm-memory-vram:\t1 MiB\n"));
  open_file(71, 5, "/dev/dri/renderD128", fdinfo(2, "drm-memory-vram:\t7 MiB\n"));
  EXPECT_EQ(read()[0].processes, (std::vector<ProcessUsage>{{70, 5 * mib}, {71, 7 * mib}}));
}

TEST_F(AmdSourceTest, ADeviceThatDoesNotAnswerIsUnreadableAndTheOthersAreNot) {
  tree_.write("sys/bus/pci/drivers/amdgpu/0000:03:00.0/mem_info_vram_used", "???");
  const auto devices = read();
  EXPECT_EQ(devices[0].health, UsageHealth::unreadable);
  EXPECT_EQ(devices[1].health, UsageHealth::readable);
}

TEST_F(AmdSourceTest, ADeviceThatIsUnboundIsLostAndComesBack) {
  AmdSource source(tree_.path() + "/sys", tree_.path() + "/proc", "libamd_smi.so.of-nobody");
  ASSERT_EQ(source.read().value().size(), 2u);
  const std::string driver = tree_.path() + "/sys/bus/pci/drivers/amdgpu/";
  for (const char* gone : {"0000:03:00.0", "0000:83:00.0"}) {
    std::filesystem::remove_all(driver + gone);
    const auto devices = source.read().value();
    ASSERT_EQ(devices.size(), 2u) << gone;
    GpuIdentity gpu;
    gpu.vendor = GpuVendor::hip;
    gpu.pci = parse_pci_address(gone).value();
    const DeviceUsage* const lost = find_usage(devices, gpu);
    ASSERT_NE(lost, nullptr);
    EXPECT_EQ(lost->health, UsageHealth::lost) << gone;
    EXPECT_EQ(lost->native, ENODEV);
  }
  add_device("0000:03:00.0", "1048576000", "524288000");
  const auto devices = source.read().value();
  EXPECT_EQ(devices[0].health, UsageHealth::readable);
  EXPECT_EQ(devices[1].health, UsageHealth::lost);
}

TEST_F(AmdSourceTest, WithoutTheDriverItIsAbsent) {
  const LiteralTree empty;
  EXPECT_EQ(AmdSource(empty.path(), empty.path(), "libamd_smi.so.of-nobody").read().error().code,
            Errc::not_found);
}

TEST(AmdFdinfo, SubtractsWhatIsSharedAndPrefersTheNewerName) {
  const auto client = parse_fdinfo(
      fdinfo(3, "drm-memory-vram:\t9 MiB\ndrm-resident-vram:\t8192 KiB\ndrm-shared-vram:\t2 MiB\n"));
  ASSERT_TRUE(client);
  EXPECT_EQ(client->client, 3u);
  EXPECT_EQ(client->pci.bus, 3);
  EXPECT_EQ(client->bytes, 6 * mib);
  EXPECT_EQ(parse_fdinfo(fdinfo(3, "drm-memory-vram:\t1 MiB\ndrm-shared-vram:\t2 MiB\n"))->bytes, 0u);
}

TEST(AmdFdinfo, RefusesOtherFiles) {
  EXPECT_FALSE(parse_fdinfo(""));
  EXPECT_FALSE(parse_fdinfo("pos:\t0\nflags:\t02\n"));
  EXPECT_FALSE(
      parse_fdinfo("drm-driver:\ti915\ndrm-client-id:\t1\ndrm-pdev:\t0000:00:02.0\ndrm-memory-vram: 1\n"));
  EXPECT_FALSE(parse_fdinfo(fdinfo(3, "")));
  EXPECT_FALSE(parse_fdinfo(fdinfo(3, "drm-memory-vram:\t1 parsec\n")));
  EXPECT_FALSE(parse_fdinfo(fdinfo(3, "drm-memory-vram:\t1 MiB\n", "nowhere")));
}

TEST(KernelText, ParsesNumbersWithUnits) {
  EXPECT_EQ(parse_kernel_bytes(" 12 KiB\n"), 12'288u);
  EXPECT_EQ(parse_kernel_bytes("3 kB"), 3072u);
  EXPECT_EQ(parse_kernel_bytes("7"), 7u);
  EXPECT_EQ(parse_kernel_bytes("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_kernel_bytes("18446744073709551615 KiB"), std::nullopt);
  EXPECT_EQ(parse_kernel_bytes("-1"), std::nullopt);
  EXPECT_EQ(parse_kernel_bytes(""), std::nullopt);
}

TEST(KernelText, ReadsOneNumberOrRefuses) {
  const LiteralTree tree{{"number", "42\n"}, {"text", "42 apples"}, {"empty", ""}};
  EXPECT_EQ(read_kernel_number(tree.path() + "/number").value(), 42u);
  EXPECT_EQ(read_kernel_number(tree.path() + "/text").error().code, Errc::corrupt);
  EXPECT_EQ(read_kernel_number(tree.path() + "/empty").error().code, Errc::corrupt);
  EXPECT_EQ(read_kernel_number(tree.path() + "/none").error().code, Errc::not_found);
  tree.make_folder("folder");
  EXPECT_EQ(read_kernel_number(tree.path() + "/folder").error().code, Errc::io);
}

TEST(UsageOnHostMemory, ReplacesTheDevicesOwnFigures) {
  DeviceUsage usage;
  usage.total_bytes = 512 * mib;
  usage.knows_processes = true;
  const DeviceUsage shared =
      on_host_memory(usage, {.total_bytes = 8000 * mib, .available_bytes = 3000 * mib});
  EXPECT_TRUE(shared.shares_host_memory);
  const UsageFigures figures = figures_of(shared, {.frame_bytes = 1000 * mib});
  EXPECT_EQ(figures.free_bytes, 3000 * mib);
  EXPECT_EQ(figures.foreign_bytes, 4000 * mib);
  EXPECT_EQ(figures.ghost_bytes, std::nullopt);
}

}  // namespace
}  // namespace penstock::test
