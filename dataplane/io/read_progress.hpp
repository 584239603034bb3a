// SPDX-License-Identifier: Apache-2.0
// ReadProgress: how far one request has come, what to read next, and what an answer of the kernel means.
// Pure.
//
// A direct read must start on the file's granule, so after a short one the next starts at the last boundary
// below what is there, and reads some bytes again to the same place. A request whose direct reads bring
// nothing new goes on through the page cache, where every byte counts: so it ends, whatever the kernel
// answers.
#pragma once

#include <cstdint>

#include "dataplane/core/extent.hpp"
#include "dataplane/io/file_reader.hpp"

namespace penstock {

class ReadProgress {
 public:
  static constexpr std::uint32_t stalls_max = 4;    // Direct answers in a row that bring nothing new.
  static constexpr std::uint32_t retries_max = 12;  // EINTR and EAGAIN in a row.

  enum class Verdict : std::uint8_t {
    complete,        // All needed bytes are there.
    more,            // Short: read next().
    retry,           // EINTR or EAGAIN: read next() after a delay.
    stalled,         // Short, and direct reads bring nothing new: go on with cached ones.
    direct_refused,  // EINVAL or EOPNOTSUPP: this file has no direct reads after all.
    ended,           // End of file before the needed bytes.
    failed,          // Any other errno.
  };

  ReadProgress() = default;
  ReadProgress(const Extent& extent, std::uint64_t needed_bytes) : extent_(extent), needed_(needed_bytes) {}

  // Where in the file to read next. The bytes belong at the destination + (next().offset - extent.offset).
  Extent next(ReadPath path, std::uint64_t granule) const;
  // `asked` is what next() said when the read was submitted.
  Verdict take(std::int32_t result, const Extent& asked, ReadPath path);

  std::uint64_t bytes() const { return reached_; }  // Good bytes from the extent's start.
  std::uint32_t retries() const { return retries_; }

 private:
  Extent extent_;
  std::uint64_t needed_ = 0;
  std::uint64_t reached_ = 0;
  std::uint32_t stalls_ = 0;
  std::uint32_t retries_ = 0;
};

}  // namespace penstock
