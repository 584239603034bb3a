// SPDX-License-Identifier: Apache-2.0
// FrameSummer: the checksum of a published frame (dataplane/kernels/convert.hpp), taken beside everything else.
//
// It maps the frame by its descriptor as a client does, so the frame may be destroyed meanwhile: its memory then goes
// when the sum is there. One frame at a time; one thread calls, and never waits.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/base/result.hpp"

namespace penstock {

class FrameSummer {
 public:
  virtual ~FrameSummer() = default;
  FrameSummer(const FrameSummer&) = delete;
  FrameSummer& operator=(const FrameSummer&) = delete;

  // `frame_fd` is the caller's and is used until this returns. Errc::busy while another one is under way.
  virtual Result<> start(int frame_fd, std::uint64_t bytes) = 0;
  // The answer to start, once. Nothing before that.
  virtual std::optional<Result<std::uint64_t>> take() = 0;

 protected:
  FrameSummer() = default;
};

}  // namespace penstock
