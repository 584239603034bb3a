// SPDX-License-Identifier: Apache-2.0
// FrameSummer: the checksum of a frame that nobody writes to (dataplane/kernels/convert.hpp), taken beside everything else.
//
// The frame may be destroyed meanwhile. One that wants descriptors maps the frame as a client does, and the memory then
// goes when the sum is there. One frame at a time, beside those that have just been filled; one thread calls, and never
// waits.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/base/ids.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

class FrameSummer {
 public:
  virtual ~FrameSummer() = default;
  FrameSummer(const FrameSummer&) = delete;
  FrameSummer& operator=(const FrameSummer&) = delete;

  // Whether start needs the frame published.
  virtual bool wants_descriptors() const = 0;
  // `frame_fd` is the caller's and is used until this returns; -1 for one that wants none. Errc::busy while another one is
  // under way.
  virtual Result<> start(FrameId frame, int frame_fd, std::uint64_t bytes) = 0;
  // The answer to start, once. Nothing before that.
  virtual std::optional<Result<std::uint64_t>> take() = 0;

  // Whether a frame can be summed up at once when it has been filled, for less than filling it costs.
  virtual bool sums_fills() const { return false; }
  // Many at a time. Errc::busy: later. REQUIRES: sums_fills().
  virtual Result<FenceId> start_fill(FrameId frame) {
    static_cast<void>(frame);
    return Error{Errc::unsupported, 0, "checksum of a frame that was filled"};
  }
  virtual std::optional<Result<std::uint64_t>> take_fill(FenceId fence) {
    static_cast<void>(fence);
    return Error{Errc::unsupported, 0, "checksum of a frame that was filled"};
  }

 protected:
  FrameSummer() = default;
};

}  // namespace penstock
