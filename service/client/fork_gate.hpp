// SPDX-License-Identifier: Apache-2.0
// What a fork must not tear apart, for the whole process. A child made by fork has no tensors: frames and session
// regions are not mapped in it, its copies of our sockets are closed, and every handle knows that it was inherited.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

// Non-zero in the process that asked first, zero in each child of it, also in one that a bare clone made. Errc::exhausted
// when there is no memory for it. The word is never freed.
Result<const std::atomic<std::uint32_t>*> birth_word();

// No fork happens while it is held: a mapping and its mark are one step.
std::unique_lock<std::mutex> hold_fork();

// A range that a child made by fork doesn't get, whatever is placed in it while hold_fork() is held: the fork handler
// marks all of it MADV_DONTFORK. A mark each time that something is placed would cost a call in each fault. Any thread.
class ForkAwareRange {
 public:
  explicit ForkAwareRange(Mapping range);
  ForkAwareRange(const ForkAwareRange&) = delete;
  ForkAwareRange& operator=(const ForkAwareRange&) = delete;
  ~ForkAwareRange();
  Mapping& operator*() { return range_; }
  Mapping* operator->() { return &range_; }
  const Mapping* operator->() const { return &range_; }

 private:
  Mapping range_;
};

// A descriptor that a child closes in its fork handler. Any thread.
class ForkAwareFd {
 public:
  ForkAwareFd() = default;
  explicit ForkAwareFd(UniqueFd fd);
  ForkAwareFd(ForkAwareFd&& other) noexcept = default;
  ForkAwareFd& operator=(ForkAwareFd&& other) noexcept;
  ~ForkAwareFd() { reset(); }
  void reset();
  int get() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }

 private:
  UniqueFd fd_;
};

// Maps a shared descriptor so that a child doesn't get it.
Result<Mapping> map_for_this_process(int fd, std::uint64_t bytes, Access access);
// The same at a place of a range. REQUIRES: whole small pages.
Result<> place_for_this_process(Mapping& range, std::uint64_t at, int fd, std::uint64_t bytes, Access access);

}  // namespace penstock
