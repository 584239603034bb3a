// SPDX-License-Identifier: Apache-2.0
// A ReadStream over threads with pread, behind a reader that can be made to fail, and a file for it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "dataplane/base/mapping.hpp"
#include "dataplane/io/read_stream.hpp"
#include "tests/support/drive_reader.hpp"
#include "tests/support/faulty_reader.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {

class StreamTest : public testing::Test {
 protected:
  static constexpr std::uint64_t step = 64 * 1024;

  // The stream, and one random file in it that the page cache does not hold.
  void use(std::uint64_t bytes, ReadStreamOptions options = {}, ReadStream::FallbackMaker fallback = nullptr);
  void push_all();
  void push_extent(std::uint64_t offset, std::uint64_t length, Urgency urgency = Urgency::bulk);
  // True when the destination holds the whole file, byte by byte.
  bool holds_the_file() const;
  bool has_direct() const { return file_->direct().usable; }
  static std::unique_ptr<FileReader> pread_reader();

  TemporaryFolder folder_;
  std::vector<std::byte> content_;
  std::shared_ptr<CheckpointFile> file_;
  Mapping destination_;  // Poisoned with 0xA5, room for the file's rounded end.
  FaultyReader* faults_ = nullptr;
  std::unique_ptr<ReadStream> stream_;
  StreamFile id_{};
};

}  // namespace penstock::test
