// SPDX-License-Identifier: Apache-2.0
// UringReader: direct reads through one io_uring, with registered files and, where the limits allow it, a
// registered ring of slots. Reads through the page cache go to a few threads of its own, because io_uring
// copies what is cached on the thread that submits it.
//
// The ring and the copying threads signal one eventfd.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/io/file_reader.hpp"
#include "dataplane/io/id_table.hpp"
#include "dataplane/io/pinned_ring.hpp"
#include "dataplane/io/read_pool.hpp"
#include "dataplane/io/reader_options.hpp"
#include "dataplane/io/uring.hpp"

namespace penstock {

class UringReader final : public FileReader {
 public:
  // `ring` may be null, and must outlive the reader. With options.register_buffers its slots are registered;
  // when the limits forbid that the open fails with FailureKind::exhausted, and the caller opens again
  // without.
  static Outcome<std::unique_ptr<FileReader>> open(const ReaderOptions& options, const PinnedRing* ring);
  // Waits for what the kernel still has: destinations may be freed afterwards.
  ~UringReader() override;

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
    bool registered = false;  // `direct` is in the ring's table, at the id's place.
  };
  UringReader(std::unique_ptr<Uring> uring, std::unique_ptr<ReadPool> pool, const ReaderOptions& options);
  void prepare(const ReadOp& op);
  std::size_t take_completions(std::span<ReadDone> done);
  Result<std::size_t> reap_refused(std::span<ReadDone> done);

  std::uint32_t queue_depth_;
  std::unique_ptr<Uring> uring_;
  const PinnedRing* registered_ = nullptr;  // Null: no buffers are registered.
  bool files_registered_ = false;
  IdTable<FileId, Descriptors> files_;
  // One place a read in flight on the ring; its index travels through the kernel.
  std::vector<std::uint64_t> tags_;
  std::vector<std::uint32_t> free_places_;
  std::vector<ReadPool::Job> jobs_;  // Of one submit; kept for its memory.
  std::unique_ptr<ReadPool> pool_;
};

}  // namespace penstock
