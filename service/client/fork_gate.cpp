// SPDX-License-Identifier: Apache-2.0
#include "service/client/fork_gate.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include <pthread.h>

#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

// Lives as long as the process: fork handlers and other threads may run while static objects are destroyed.
struct Gate {
  std::mutex mutex;
  std::vector<int> closed_in_children;
  std::vector<Mapping*> hidden_from_children;
};

Gate& gate() {
  static Gate* const one = new Gate;
  return *one;
}

void before_fork() {
  gate().mutex.lock();
  // Fails where the kernel is out of memory for it, and then the child keeps what it was to lose: read-only frames, which
  // are never filled again.
  for (Mapping* const range : gate().hidden_from_children) (void)range->keep_from_children(0, range->size());
}
void after_fork_in_parent() { gate().mutex.unlock(); }
// Only what is safe between fork and exec of a process that had threads.
void after_fork_in_child() {
  for (const int fd : gate().closed_in_children) ::close(fd);
  gate().closed_in_children.clear();  // The numbers are the child's own from now on.
  gate().hidden_from_children.clear();
  gate().mutex.unlock();
}

Result<const std::atomic<std::uint32_t>*> make_birth_word() {
  Mapping page = TRY(Mapping::anonymous(small_page_bytes));
  TRY(page.zero_in_children());
  auto* const word = new (page.data()) std::atomic<std::uint32_t>(1);
  if (::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
    return Error{Errc::exhausted, 0, "pthread_atfork"};
  }
  (void)page.release();
  return word;
}

}  // namespace

Result<const std::atomic<std::uint32_t>*> birth_word() {
  static const Result<const std::atomic<std::uint32_t>*> word = make_birth_word();
  if (!word || (*word)->load(std::memory_order_relaxed) != 0) return word;
  // This process is itself a child of one that used the library: it starts a life of its own.
  static std::mutex mutex;
  static std::vector<const std::atomic<std::uint32_t>*> reborn;
  const std::lock_guard lock(mutex);
  if (reborn.empty() || reborn.back()->load(std::memory_order_relaxed) == 0) {
    Mapping page = TRY(Mapping::anonymous(small_page_bytes));
    TRY(page.zero_in_children());
    reborn.push_back(new (page.data()) std::atomic<std::uint32_t>(1));
    (void)page.release();
  }
  return reborn.back();
}

std::unique_lock<std::mutex> hold_fork() { return std::unique_lock(gate().mutex); }

ForkAwareRange::ForkAwareRange(Mapping range) : range_(std::move(range)) {
  const auto lock = hold_fork();
  gate().hidden_from_children.push_back(&range_);
}

ForkAwareRange::~ForkAwareRange() {
  const auto lock = hold_fork();
  std::erase(gate().hidden_from_children, &range_);
  range_ = {};  // In the same step, or a child made now would get it.
}

ForkAwareFd::ForkAwareFd(UniqueFd fd) : fd_(std::move(fd)) {
  if (!fd_) return;
  const auto lock = hold_fork();
  gate().closed_in_children.push_back(fd_.get());
}

ForkAwareFd& ForkAwareFd::operator=(ForkAwareFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::move(other.fd_);
  }
  return *this;
}

void ForkAwareFd::reset() {
  if (!fd_) return;
  const auto lock = hold_fork();
  std::erase(gate().closed_in_children, fd_.get());
  fd_.reset();
}

Result<Mapping> map_for_this_process(int fd, std::uint64_t bytes, Access access) {
  const std::uint64_t whole = round_up(bytes, small_page_bytes);
  const auto lock = hold_fork();
  Mapping mapping = TRY(Mapping::shared(fd, whole, access));
  TRY(mapping.keep_from_children(0, whole));
  return mapping;
}

Result<> place_for_this_process(Mapping& range, std::uint64_t at, int fd, std::uint64_t bytes,
                                Access access) {
  const auto lock = hold_fork();
  TRY(range.place(at, fd, bytes, access));
  return range.keep_from_children(at, bytes);
}

}  // namespace penstock
