// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/io/stream_under_test.hpp"

#include <algorithm>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/pread_reader.hpp"
#include "tests/support/random_file.hpp"

namespace penstock::test {

std::unique_ptr<FileReader> StreamTest::pread_reader() {
  auto reader = PreadReader::open({.queue_depth = 16, .pread_threads = 2});
  CHECK(reader);
  return *std::move(reader);
}

void StreamTest::use(std::uint64_t bytes, ReadStreamOptions options, ReadStream::FallbackMaker fallback) {
  content_ = random_bytes(bytes, bytes + 1);
  write_durably(folder_ / "model", content_);
  drop_from_page_cache(folder_ / "model");
  file_ = *CheckpointFile::open(folder_ / "model");
  destination_ = *Mapping::anonymous(bytes + 8192);
  std::ranges::fill(destination_.bytes(), std::byte{0xa5});
  auto faulty = std::make_unique<FaultyReader>(pread_reader());
  faults_ = faulty.get();
  stream_ = *ReadStream::make(std::move(faulty), std::move(fallback), options);
  const auto added = stream_->add(file_);
  ASSERT_TRUE(added);
  id_ = *added;
}

void StreamTest::push_all() { push_whole(*stream_, id_, content_.size(), step, 4096, destination_.bytes()); }

void StreamTest::push_extent(std::uint64_t offset, std::uint64_t length, Urgency urgency) {
  stream_->push({.file = id_,
                 .extent = {.offset = offset, .length = round_up(length, 4096)},
                 .needed_bytes = length,
                 .destination = destination_.data() + offset,
                 .urgency = urgency,
                 .tag = offset});
}

bool StreamTest::holds_the_file() const {
  return std::ranges::equal(destination_.bytes().first(content_.size()), content_);
}

}  // namespace penstock::test
