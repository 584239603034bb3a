// SPDX-License-Identifier: Apache-2.0
// R02: a low limit of locked memory is told with its numbers, and large rings are registered in pieces.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "dataplane/base/sha256.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/uring_reader.hpp"
#include "tests/integration/reader/load_file.hpp"
#include "tests/support/drive_reader.hpp"
#include "tests/support/in_child.hpp"
#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {
namespace {

class CaseR02 : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "requires root, to give rights away";
    content_ = random_bytes(3 * mib + 100, 2);
    write_durably(folder_ / "model", content_);
    drop_from_page_cache(folder_ / "model");
    file_ = *CheckpointFile::open(folder_ / "model");
  }

  TemporaryFolder folder_;
  std::vector<std::byte> content_;
  std::shared_ptr<CheckpointFile> file_;
};

TEST_F(CaseR02, LoadsUnregisteredUnderALowLimitAndSaysWhereToRaiseIt) {
  for (const std::uint64_t limit : {64 * kib, 8 * mib}) {
    const std::string told = in_child([&] {
      drop_rights(limit);
      const Opened opened =
          open_stream({}, {.slot_bytes = 512 * kib, .slots = 128, .reserved_huge_pages = false});
      const Loaded loaded = load_through_slots(*opened.stream, *opened.ring, file_);
      return opened.report.backend + " " + loaded.sha256 + " " + opened.report.reason;
    });
    if (told.starts_with("pread ")) GTEST_SKIP() << "requires io_uring for users without privilege";
    EXPECT_TRUE(told.starts_with("uring-unregistered " + to_hex(sha256(content_)) + " ")) << told;
    EXPECT_NE(told.find("wanted 67108864 bytes, the limit of locked memory is " + std::to_string(limit)),
              std::string::npos)
        << told;
    EXPECT_NE(told.find("LimitMEMLOCK="), std::string::npos) << told;
    EXPECT_EQ(told.find("out of memory"), std::string::npos) << told;
    EXPECT_EQ(told.find('\n'), std::string::npos) << told;
    const auto first = told.find("LimitMEMLOCK=");
    EXPECT_EQ(told.find("LimitMEMLOCK=", first + 1), std::string::npos) << "said twice: " << told;
  }
}

TEST_F(CaseR02, RegistersARingLargerThanOneGibibyteInPieces) {
  const auto ring = PinnedRing::make({.slot_bytes = 64 * mib, .slots = 17, .reserved_huge_pages = false});
  ASSERT_TRUE(ring);
  const auto pieces = (*ring)->pieces();
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].size(), gib);
  EXPECT_EQ(pieces[1].size(), 64 * mib);
  auto reader = UringReader::open({}, ring->get());
  if (!reader) GTEST_SKIP() << "requires io_uring and CAP_IPC_LOCK: " << reader.error().message;
  if (!file_->direct().usable) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  EXPECT_EQ((*reader)->backend(), "uring");
  const auto id = (*reader)->add(file_->cached_fd(), file_->direct_fd());
  ASSERT_TRUE(id);
  for (const SlotId slot : {SlotId{0}, SlotId{15}, SlotId{16}}) {
    std::byte* const destination = (*ring)->address(slot);
    const ReadOp op{.file = *id,
                    .extent = {.offset = 0, .length = 3 * mib},
                    .destination = destination,
                    .slot = slot,
                    .path = ReadPath::direct};
    ASSERT_EQ(read_once(**reader, op), static_cast<std::int32_t>(3 * mib));
    EXPECT_EQ(std::memcmp(destination, content_.data(), 3 * mib), 0);
  }
}

}  // namespace
}  // namespace penstock::test
