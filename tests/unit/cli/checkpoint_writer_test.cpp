// SPDX-License-Identifier: Apache-2.0
#include "service/cli/checkpoint_writer.hpp"

#include <csignal>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "dataplane/base/units.hpp"
#include "dataplane/core/checkpoint_parser.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

TEST(CheckpointWriter, ItsChecksumsAreThoseOfTheFilesBytes) {
  const test::TemporaryFolder folder;
  // Tensors end anywhere inside the writer's chunks, and some span several.
  const auto plan = plan_checkpoint(*find_shape("sdxl"), 3, 20 * mib);
  auto file = NewFile::create(folder / "a", Existing::kept);
  const Interruption interruption;
  const auto written = write_checkpoint(*plan, 3, *file, interruption);
  ASSERT_TRUE(written) << written.error().message;
  ASSERT_TRUE(file->publish());
  const std::vector<std::byte> bytes = test::read_file(folder / "a");
  ASSERT_EQ(bytes.size(), plan->file_bytes);
  EXPECT_EQ(sha256(bytes), written->file_digest);
  const auto index = parse_header(std::span(bytes).first(plan->header.size()), bytes.size());
  ASSERT_TRUE(index);
  std::string lines;
  for (const TensorEntry& tensor : index->tensors()) {
    lines += to_hex(sha256(std::span(bytes).subspan(tensor.extent.offset, tensor.extent.length))) + "  " +
             tensor.name + "\n";
  }
  EXPECT_EQ(lines, written->digest_lines);
}

TEST(CheckpointWriter, StopsWhenInterrupted) {
  const test::TemporaryFolder folder;
  const auto plan = plan_checkpoint(*find_shape("sdxl"), 3, 20 * mib);
  auto file = NewFile::create(folder / "a", Existing::kept);
  const Interruption interruption;
  ASSERT_EQ(std::raise(SIGTERM), 0);
  const auto written = write_checkpoint(*plan, 3, *file, interruption);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, FailureKind::cancelled);
}

TEST(CheckpointWriter, PassesAFailedWriteOn) {
  const test::TemporaryFolder folder;
  const auto plan = plan_checkpoint(*find_shape("sdxl"), 3, 20 * mib);
  auto file = NewFile::create(folder / "a", Existing::kept);
  const Interruption interruption;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit low = before;
  low.rlim_cur = 5 * mib;
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto written = write_checkpoint(*plan, 3, *file, interruption);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("EFBIG"), std::string::npos) << written.error().message;
}

}  // namespace
}  // namespace penstock
