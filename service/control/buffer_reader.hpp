// SPDX-License-Identifier: Apache-2.0
// BufferReader: the thread of one session that reads files into its host buffers. Called on the executor's thread.
//
// One a session: a file system that hangs holds up the thread of whoever handed its file over, and no other. It outlives
// this object as long as it hangs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "dataplane/io/reader_options.hpp"
#include "service/config/config.hpp"
#include "service/control/buffer_reads.hpp"

namespace penstock {

struct BufferReaderOptions {
  PinnedRingOptions ring{.slot_bytes = 1ull << 20, .slots = 8, .reserved_huge_pages = false};
  ReaderOptions reader{.queue_depth = BufferReads::parts_max, .files_max = 128, .pread_threads = 4};
  ReadStreamOptions stream{.requests_max = BufferReads::parts_max};
};

ReaderOptions reader_options(const ReaderConfig& config);
BufferReaderOptions buffer_reader_options(const ReaderConfig& config);

class BufferReader {
 public:
  using Answer = std::function<void(Outcome<void>)>;

  BufferReader(boost::asio::any_io_executor executor, const BufferReaderOptions& options);
  ~BufferReader();  // What is unanswered stays so; does not wait for the thread.
  BufferReader(const BufferReader&) = delete;
  BufferReader& operator=(const BufferReader&) = delete;

  // Answered exactly once, while this object lives. `subject`: what is said of a read that keeps the service from ending.
  void read(BufferRead read, std::string subject, Answer answer);
  void cancel(std::uint64_t request);
  void drop(std::shared_ptr<CheckpointFile> file);

  // Of what it has read, not all of which was wanted.
  std::uint64_t direct_bytes() const;
  std::uint64_t cached_bytes() const;

 private:
  friend class BufferReaders;
  struct State;
  std::shared_ptr<State> state_;
};

// All of the service's.
class BufferReaders {
 public:
  static constexpr std::size_t threads_max = 32;

  BufferReaders(boost::asio::any_io_executor executor, const BufferReaderOptions& options)
      : executor_(std::move(executor)), options_(options) {}

  // FailureKind::busy when there are too many.
  Outcome<std::unique_ptr<BufferReader>> open();
  // What the threads read that have not ended.
  std::vector<std::string> running();

 private:
  boost::asio::any_io_executor executor_;
  const BufferReaderOptions options_;
  std::vector<std::weak_ptr<BufferReader::State>> states_;
};

}  // namespace penstock
