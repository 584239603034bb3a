// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/ledger.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <set>

#include "tests/fakes/engine/die.hpp"
#include "tests/fakes/engine/settings.hpp"

namespace penstock::fake {

struct Ledger::Slot {
  std::uint64_t inode;
  std::uint64_t bytes;
  std::uint32_t device;
  std::uint32_t zero;
  std::uint64_t gone_at_ms;  // When it was first found dead; it counts on for PENSTOCK_FAKE_GIVE_BACK_MS.
};

struct Ledger::Table {
  static constexpr std::uint32_t slots_max = 65536;
  std::uint32_t slot_count;  // A new file is zero: an empty table.
  std::uint32_t zero;
  std::uint64_t used[max_devices];  // At least what is in use: exact after a sweep.
  Slot slots[slots_max];
};

class Ledger::Locked {
 public:
  explicit Locked(int fd) : fd_(fd) {
    while (::flock(fd_, LOCK_EX) != 0) {
      if (errno != EINTR) die("the ledger can't be locked: %s", std::strerror(errno));
    }
  }
  ~Locked() { ::flock(fd_, LOCK_UN); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  int fd_;
};

namespace {

std::uint64_t now_ms() {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

}  // namespace

Ledger& Ledger::instance() {
  static Ledger* const ledger = new Ledger;
  return *ledger;
}

Ledger::Ledger() {
  const std::string& path = settings().ledger;
  file_ = UniqueFd(path.empty() ? ::memfd_create("fake-ledger", MFD_CLOEXEC)
                                : ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file_ || ::ftruncate(file_.get(), sizeof(Table)) != 0) {
    die("the ledger %s: %s", path.c_str(), std::strerror(errno));
  }
  void* memory = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) die("the ledger %s: %s", path.c_str(), std::strerror(errno));
  table_ = static_cast<Table*>(memory);
}

// The kernel gives the list of locks in pieces of a page, each from a position on: locks before it that are removed
// meanwhile, by anybody on the machine, hide as many that are there. Only what is missed time and again is dead.
std::set<std::uint64_t> Ledger::living() const {
  constexpr int looks_max = 12;
  std::set<std::uint64_t> found = living_frames();
  const auto all_found = [&] {
    return std::all_of(table_->slots, table_->slots + table_->slot_count,
                       [&](const Slot& slot) { return slot.gone_at_ms != 0 || found.contains(slot.inode); });
  };
  for (int look = 1; look < looks_max && !all_found(); ++look) found.merge(living_frames());
  return found;
}

void Ledger::sweep() {
  const std::set<std::uint64_t> living = this->living();
  std::uint32_t kept = 0;
  std::fill(std::begin(table_->used), std::end(table_->used), 0);
  for (std::uint32_t i = 0; i < table_->slot_count; ++i) {
    Slot slot = table_->slots[i];
    if (!living.contains(slot.inode)) {
      if (slot.gone_at_ms == 0) slot.gone_at_ms = now_ms();
      if (now_ms() - slot.gone_at_ms >= settings().give_back_ms) continue;
    }
    table_->used[slot.device] += slot.bytes;
    table_->slots[kept++] = slot;
  }
  table_->slot_count = kept;
}

void Ledger::insert(const FrameInfo& info) {
  if (table_->slot_count == Table::slots_max) sweep();
  if (table_->slot_count == Table::slots_max) die("more than %u frames", Table::slots_max);
  table_->slots[table_->slot_count++] = {.inode = info.inode,
                                         .bytes = info.bytes,
                                         .device = static_cast<std::uint32_t>(info.device),
                                         .zero = 0,
                                         .gone_at_ms = 0};
  table_->used[info.device] += info.bytes;
}

Ledger::Booking Ledger::make(FrameInfo& info, UniqueFd& fd) {
  const Locked locked(file_.get());
  const auto fits = [&] {
    return info.bytes <= settings().device_bytes &&
           table_->used[info.device] <= settings().device_bytes - info.bytes;
  };
  if (!fits()) sweep();
  if (!fits()) return Booking::no_room;
  fd = make_frame(info);
  if (!fd) return Booking::no_descriptor;
  insert(info);
  return Booking::made;
}

void Ledger::count(const FrameInfo& info) {
  const Locked locked(file_.get());
  for (std::uint32_t i = 0; i < table_->slot_count; ++i) {
    if (table_->slots[i].inode == info.inode) return;
  }
  insert(info);
}

std::uint64_t Ledger::used_bytes(int device) {
  const Locked locked(file_.get());
  sweep();
  return table_->used[device];
}

std::uint64_t Ledger::living_frame_count(int device) {
  const Locked locked(file_.get());
  sweep();
  return static_cast<std::uint64_t>(
      std::count_if(table_->slots, table_->slots + table_->slot_count,
                    [&](const Slot& slot) { return slot.device == static_cast<std::uint32_t>(device); }));
}

}  // namespace penstock::fake
