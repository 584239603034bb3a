// SPDX-License-Identifier: Apache-2.0
// Mapping: owns one range of address space. Unmapped on destruction.
//
// A failed mmap is an answer (Errc::exhausted, or Errc::denied when a seal or the descriptor's mode forbids it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/result.hpp"

namespace penstock {

inline constexpr std::uint64_t small_page_bytes = 4096;
inline constexpr std::uint64_t huge_page_bytes = 2 * 1024 * 1024;

enum class Access : std::uint8_t { none, read, read_write };
// What a write to a mapped descriptor changes: the file, for everybody, or a copy of this process alone.
enum class Sharing : std::uint8_t { shared, copy_on_write };

// Which huge pages back an anonymous mapping.
enum class PageKind : std::uint8_t {
  small,        // Whatever the system's default is.
  transparent,  // 2 MiB-aligned, with MADV_HUGEPAGE: huge where the kernel has some.
  hugetlb,      // From the reserved pool, or Errc::exhausted.
};

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Private zeroed memory, readable and writable. Sizes are rounded up to the page kind's size.
  static Result<Mapping> anonymous(std::uint64_t bytes, PageKind kind = PageKind::small);
  // Address space alone (Access::none, no memory charged), aligned to `alignment` (a power of two >= 4096).
  static Result<Mapping> reserve(std::uint64_t bytes, std::uint64_t alignment = huge_page_bytes);
  // Shared mapping of a descriptor. REQUIRES: offset and alignment are multiples of the page size.
  static Result<Mapping> shared(int fd, std::uint64_t bytes, Access access, std::uint64_t offset = 0,
                                std::uint64_t alignment = small_page_bytes);
  // Private (copy-on-write) mapping of a descriptor.
  static Result<Mapping> copy_on_write(int fd, std::uint64_t bytes, std::uint64_t offset = 0);

  // Replaces [at, at + bytes) of this mapping by a mapping of `fd`, atomically.
  // REQUIRES, for all that take a range: it is inside, on page boundaries.
  Result<> place(std::uint64_t at, int fd, std::uint64_t bytes, Access access, std::uint64_t offset = 0,
                 Sharing sharing = Sharing::shared);
  // Makes the range inaccessible again and gives up what was placed there.
  Result<> unplace(std::uint64_t at, std::uint64_t bytes);

  Result<> protect(Access access);
  Result<> protect(std::uint64_t at, std::uint64_t bytes, Access access);
  // Drops the copies of a copy-on-write range: it shows the file again.
  Result<> drop_copies(std::uint64_t at, std::uint64_t bytes);
  // A child made by fork gets no mapping of the range. Lasts until something else is placed there.
  Result<> keep_from_children(std::uint64_t at, std::uint64_t bytes);
  // A child made by fork, by whatever call, sees zeros. REQUIRES: an anonymous mapping.
  Result<> zero_in_children();
  // madvise over the whole range, for example MADV_DONTFORK.
  Result<> advise(int advice) const;

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  explicit operator bool() const { return data_ != nullptr; }
  // Gives up ownership: the range stays mapped.
  std::span<std::byte> release();

 private:
  Mapping(std::byte* data, std::uint64_t size) : data_(data), size_(size) {}
  void check_range(std::uint64_t at, std::uint64_t bytes) const;

  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

// Makes addresses inaccessible that somebody else reserved and left open, atomically and without giving them up.
// REQUIRES: page boundaries; the range is the caller's to use.
Result<> make_inaccessible(void* at, std::uint64_t bytes);

}  // namespace penstock
