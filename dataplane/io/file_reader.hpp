// SPDX-License-Identifier: Apache-2.0
// The one seam to file reads. Implementations: UringReader, PreadReader; SimReader in tests.
//
// Thread rule: every call comes from the one thread that created the reader (a ring has a single issuer).
// Short reads, EINTR and EAGAIN are not hidden here: ReadDone carries what the kernel said, and ReadStream
// (the continuation logic above this seam) re-submits, so that the same tests hold for each implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dataplane/base/ids.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/core/extent.hpp"

namespace penstock {

enum class ReadPath : std::uint8_t { direct, cached };

struct ReadOp {
  FileId file{};
  Extent extent;  // Aligned to the file's granule when path is direct. Length > 0, <= 0x7ffff000.
  std::byte* destination = nullptr;  // Stays valid until the ReadDone of this op has been reaped.
  SlotId slot = no_slot;  // When the destination lies in the registered ring: allows a fixed-buffer read.
  ReadPath path = ReadPath::cached;
  std::uint64_t tag = 0;  // Returned unchanged.
};

struct ReadDone {
  std::uint64_t tag = 0;
  std::int32_t result = 0;  // Bytes read, or -errno. 0 = end of file.
};

class FileReader {
 public:
  // Waits for what is in flight, unless the backend was refused: destinations may be freed afterwards.
  virtual ~FileReader() = default;
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // Makes a file readable. The descriptors stay the caller's and must outlive remove(). direct_fd may be -1.
  virtual Result<FileId> add(int cached_fd, int direct_fd) = 0;
  // REQUIRES: no op of the file is in flight.
  virtual void remove(FileId file) = 0;

  // Queues every op or none. Errc::busy when fewer than ops.size() entries are free; Errc::unsupported when
  // the backend is refused: reap then says what became of the rest.
  virtual Result<> submit(std::span<const ReadOp> ops) = 0;
  // Fills `done` with what has finished and returns how many; never blocks. Errc::unsupported when the
  // backend turned out to be refused at run time (R01) and no thread of it writes any more: the ops in flight
  // are lost to it, and the caller re-submits them elsewhere.
  virtual Result<std::size_t> reap(std::span<ReadDone> done) = 0;
  // Asks the kernel to give up on everything in flight; each op still answers through reap (often
  // -ECANCELED).
  virtual void cancel_all() = 0;

  virtual std::size_t in_flight() const = 0;
  virtual std::size_t queue_depth() const = 0;
  // Becomes readable when reap would return something.
  virtual int event_fd() const = 0;
  virtual std::string_view backend() const = 0;  // "uring", "uring-unregistered", "pread"

 protected:
  FileReader() = default;
};

}  // namespace penstock
