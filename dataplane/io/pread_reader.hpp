// SPDX-License-Identifier: Apache-2.0
// PreadReader: reads with a pool of threads. Works wherever pread does.
#pragma once

#include <memory>

#include "dataplane/base/failure.hpp"
#include "dataplane/io/file_reader.hpp"
#include "dataplane/io/id_table.hpp"
#include "dataplane/io/read_pool.hpp"
#include "dataplane/io/reader_options.hpp"

namespace penstock {

class PreadReader final : public FileReader {
 public:
  static Outcome<std::unique_ptr<FileReader>> open(const ReaderOptions& options);

  Result<FileId> add(int cached_fd, int direct_fd) override;
  void remove(FileId file) override;
  Result<> submit(std::span<const ReadOp> ops) override;
  Result<std::size_t> reap(std::span<ReadDone> done) override;
  void cancel_all() override;
  std::size_t in_flight() const override;
  std::size_t queue_depth() const override;
  int event_fd() const override;
  std::string_view backend() const override;

 private:
  struct Descriptors {
    int cached = -1;
    int direct = -1;
  };
  PreadReader(std::unique_ptr<ReadPool> pool, const ReaderOptions& options);

  std::uint32_t queue_depth_;
  IdTable<FileId, Descriptors> files_;
  std::vector<ReadPool::Job> jobs_;  // Of one submit; kept for its memory.
  std::unique_ptr<ReadPool> pool_;   // Last: its threads end before the rest goes.
};

}  // namespace penstock
