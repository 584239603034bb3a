// SPDX-License-Identifier: Apache-2.0
// The readers that the suite runs on, each with a ring of slots and files on the real filesystem.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dataplane/io/checkpoint_file.hpp"
#include "dataplane/io/file_reader.hpp"
#include "dataplane/io/pinned_ring.hpp"
#include "dataplane/io/reader_options.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {

enum class Rung { uring, uring_unregistered, pread };

std::string rung_name(const testing::TestParamInfo<Rung>& info);

class ReaderTest : public testing::TestWithParam<Rung> {
 protected:
  static constexpr std::uint64_t slot_bytes = 256 * 1024;
  static constexpr std::uint32_t depth = 16;
  static constexpr std::uint32_t files_max = 64;

  void SetUp() override;
  // A file of random bytes, adopted and added; its pages are not in the page cache.
  void use_file(std::uint64_t bytes);
  // Skips the test when the temporary folder has no direct I/O.
  bool has_direct() const { return file_->direct().usable; }
  std::uint32_t granule() const { return file_->direct().offset_granule; }
  ReadOp op(std::uint64_t offset, std::uint64_t length, ReadPath path, std::byte* destination,
            std::uint64_t tag = 1) const;
  std::unique_ptr<FileReader> open_reader_of_this_rung(const ReaderOptions& options) const;

  TemporaryFolder folder_;
  std::unique_ptr<PinnedRing> ring_;
  std::vector<std::byte> content_;
  std::shared_ptr<CheckpointFile> file_;
  FileId id_{};
  std::unique_ptr<FileReader> reader_;  // Last: it waits for its reads before the memory goes.
};

}  // namespace penstock::test
