// SPDX-License-Identifier: Apache-2.0
#include "service/client/parked_mappers.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace penstock {
namespace {

struct Parked {
  std::mutex mutex;
  std::vector<std::unique_ptr<PageMapper>> mappers;
  std::vector<std::shared_ptr<TableCopy>> copies;
  std::atomic<bool> any = false;
};

// Never destroyed: the driver may be gone before our own statics are.
Parked& parked() {
  static Parked& parked = *std::make_unique<Parked>().release();
  return parked;
}

}  // namespace

void park(std::unique_ptr<PageMapper> mapper) {
  Parked& all = parked();
  const std::lock_guard lock(all.mutex);
  all.mappers.push_back(std::move(mapper));
  all.any.store(true, std::memory_order_relaxed);
}

void park(std::shared_ptr<TableCopy> copy) {
  Parked& all = parked();
  const std::lock_guard lock(all.mutex);
  all.copies.push_back(std::move(copy));
  all.any.store(true, std::memory_order_relaxed);
}

void end_parked() {
  Parked& all = parked();
  if (!all.any.load(std::memory_order_relaxed)) return;
  std::vector<std::shared_ptr<TableCopy>> over;  // They end without the lock.
  const std::unique_lock lock(all.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;  // Another thread is at it.
  std::erase_if(all.mappers,
                [](const auto& one) { return one->ending(false) == Ending::now && one->unmap_all(); });
  std::erase_if(all.copies, [&](auto& one) {
    if (one->ending() != Ending::now) return false;
    over.push_back(std::move(one));
    return true;
  });
  all.any.store(!all.mappers.empty() || !all.copies.empty(), std::memory_order_relaxed);
}

}  // namespace penstock
