// SPDX-License-Identifier: Apache-2.0
// QueuedUse: device addresses that a piece of work uses, from when it is queued to its end. What is unmapped meanwhile is
// found out at the unmap, since something else may be mapped there when the work runs.
#pragma once

#include <cstdint>

namespace penstock::fake {

class Context;

class QueuedUse {
 public:
  QueuedUse(const Context& context, std::uint64_t address, std::uint64_t size);
  ~QueuedUse();
  QueuedUse(const QueuedUse&) = delete;
  QueuedUse& operator=(const QueuedUse&) = delete;

  // Work that will still run uses an address of the range.
  static bool overlaps(std::uint64_t address, std::uint64_t size);

 private:
  const Context& context_;
  const std::uint64_t address_;
  const std::uint64_t size_;
};

}  // namespace penstock::fake
