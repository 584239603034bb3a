// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/queued_use.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include "tests/fakes/engine/context.hpp"

namespace penstock::fake {
namespace {

struct Uses {
  std::mutex mutex;
  std::set<const QueuedUse*> all;
};

Uses& uses() {
  static Uses* const uses = new Uses;
  return *uses;
}

}  // namespace

QueuedUse::QueuedUse(const Context& context, std::uint64_t address, std::uint64_t size)
    : context_(context), address_(address), size_(size) {
  const std::scoped_lock lock(uses().mutex);
  uses().all.insert(this);
}

QueuedUse::~QueuedUse() {
  const std::scoped_lock lock(uses().mutex);
  uses().all.erase(this);
}

bool QueuedUse::overlaps(std::uint64_t address, std::uint64_t size) {
  const std::scoped_lock lock(uses().mutex);
  return std::any_of(uses().all.begin(), uses().all.end(), [&](const QueuedUse* use) {
    // The work of a context that is over does not run.
    if (use->context_.is_dead() || use->context_.is_destroyed()) return false;
    return use->address_ < address + size && address < use->address_ + use->size_;
  });
}

}  // namespace penstock::fake
