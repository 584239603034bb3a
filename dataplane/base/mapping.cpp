// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/mapping.hpp"

#include <bit>
#include <cerrno>
#include <utility>

#include <sys/mman.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

int protection(Access access) {
  switch (access) {
    case Access::none: return PROT_NONE;
    case Access::read: return PROT_READ;
    case Access::read_write: return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

Error mapping_error(const char* operation) {
  const int native = errno;
  switch (native) {
    case EPERM:
    case EACCES: return Error{Errc::denied, native, operation};
    case ENOMEM:
    case ENFILE:
    case EAGAIN: return Error{Errc::exhausted, native, operation};
    default: return Error{Errc::invalid, native, operation};
  }
}

Result<std::byte*> map(void* where, std::uint64_t bytes, int prot, int flags, int fd, std::uint64_t offset) {
  void* const address = ::mmap(where, bytes, prot, flags, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) return mapping_error("mmap");
  return static_cast<std::byte*>(address);
}

void unmap(std::byte* data, std::uint64_t bytes) {
  if (bytes != 0) CHECK(::munmap(data, bytes) == 0);
}

// Reserves more than asked and trims both ends. REQUIRES: bytes is a multiple of the page size.
Result<std::byte*> reserve_aligned(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t slack = alignment > small_page_bytes ? alignment : 0;
  if (bytes > UINT64_MAX - slack) return Error{Errc::exhausted, ENOMEM, "mmap"};
  std::byte* const start =
      TRY(map(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  const std::uint64_t head = (0 - reinterpret_cast<std::uintptr_t>(start)) & (alignment - 1);
  unmap(start, head);
  unmap(start + head + bytes, slack - head);
  return start + head;
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    unmap(data_, size_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Mapping::~Mapping() { unmap(data_, size_); }

Result<Mapping> Mapping::anonymous(std::uint64_t bytes, PageKind kind) {
  const std::uint64_t granule = kind == PageKind::small ? small_page_bytes : huge_page_bytes;
  if (bytes == 0) return Error{Errc::invalid, EINVAL, "mmap"};
  if (bytes > UINT64_MAX - granule) return Error{Errc::exhausted, ENOMEM, "mmap"};
  const std::uint64_t size = round_up(bytes, granule);
  const int prot = PROT_READ | PROT_WRITE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  if (kind == PageKind::hugetlb) {
    return Mapping(TRY(map(nullptr, size, prot, flags | MAP_HUGETLB, -1, 0)), size);
  }
  if (kind == PageKind::small) return Mapping(TRY(map(nullptr, size, prot, flags, -1, 0)), size);
  Mapping mapping(TRY(reserve_aligned(size, huge_page_bytes)), size);
  TRY(map(mapping.data_, size, prot, flags | MAP_FIXED, -1, 0));
  // A kernel without transparent huge pages refuses the advice; small pages are then what there is.
  (void)::madvise(mapping.data_, size, MADV_HUGEPAGE);
  return mapping;
}

Result<Mapping> Mapping::reserve(std::uint64_t bytes, std::uint64_t alignment) {
  CHECK(std::has_single_bit(alignment) && alignment >= small_page_bytes);
  if (bytes == 0) return Error{Errc::invalid, EINVAL, "mmap"};
  if (bytes > UINT64_MAX - small_page_bytes) return Error{Errc::exhausted, ENOMEM, "mmap"};
  const std::uint64_t size = round_up(bytes, small_page_bytes);
  return Mapping(TRY(reserve_aligned(size, alignment)), size);
}

Result<Mapping> Mapping::shared(int fd, std::uint64_t bytes, Access access, std::uint64_t offset,
                                std::uint64_t alignment) {
  if (bytes == 0) return Error{Errc::invalid, EINVAL, "mmap"};
  if (alignment <= small_page_bytes) {
    return Mapping(TRY(map(nullptr, bytes, protection(access), MAP_SHARED, fd, offset)),
                   round_up(bytes, small_page_bytes));
  }
  Mapping mapping = TRY(reserve(bytes, alignment));
  TRY(mapping.place(0, fd, mapping.size(), access, offset));
  return mapping;
}

Result<Mapping> Mapping::copy_on_write(int fd, std::uint64_t bytes, std::uint64_t offset) {
  if (bytes == 0) return Error{Errc::invalid, EINVAL, "mmap"};
  const int prot = protection(Access::read_write);
  return Mapping(TRY(map(nullptr, bytes, prot, MAP_PRIVATE, fd, offset)), round_up(bytes, small_page_bytes));
}

void Mapping::check_range(std::uint64_t at, std::uint64_t bytes) const {
  CHECK(at <= size_ && bytes <= size_ - at);
  CHECK(at % small_page_bytes == 0 && bytes % small_page_bytes == 0);
}

Result<> Mapping::place(std::uint64_t at, int fd, std::uint64_t bytes, Access access, std::uint64_t offset,
                        Sharing sharing) {
  check_range(at, bytes);
  const int kind = sharing == Sharing::shared ? MAP_SHARED : MAP_PRIVATE;
  TRY(map(data_ + at, bytes, protection(access), kind | MAP_FIXED, fd, offset));
  return {};
}

Result<> Mapping::unplace(std::uint64_t at, std::uint64_t bytes) {
  check_range(at, bytes);
  // Neighbours that differ in a flag are not merged, and what is placed here next replaces an area of the kernel's as a
  // whole: 1 us less than cutting it out of a larger one. Nothing is ever reserved for what can't be written.
  const int flags = bytes != 0 && at / bytes % 2 == 0 ? 0 : MAP_NORESERVE;
  TRY(map(data_ + at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0));
  return {};
}

Result<> Mapping::protect(Access access) {
  if (::mprotect(data_, size_, protection(access)) != 0) return mapping_error("mprotect");
  return {};
}

Result<> Mapping::protect(std::uint64_t at, std::uint64_t bytes, Access access) {
  check_range(at, bytes);
  if (::mprotect(data_ + at, bytes, protection(access)) != 0) return mapping_error("mprotect");
  return {};
}

Result<> Mapping::drop_copies(std::uint64_t at, std::uint64_t bytes) {
  check_range(at, bytes);
  if (::madvise(data_ + at, bytes, MADV_DONTNEED) != 0) return mapping_error("madvise");
  return {};
}

Result<> Mapping::keep_from_children(std::uint64_t at, std::uint64_t bytes) {
  check_range(at, bytes);
  if (::madvise(data_ + at, bytes, MADV_DONTFORK) != 0) return mapping_error("madvise");
  return {};
}

Result<> Mapping::zero_in_children() { return advise(MADV_WIPEONFORK); }

Result<> Mapping::advise(int advice) const {
  if (::madvise(data_, size_, advice) != 0) return mapping_error("madvise");
  return {};
}

std::span<std::byte> Mapping::release() {
  const std::span<std::byte> range(data_, size_);
  data_ = nullptr;
  size_ = 0;
  return range;
}

Result<> make_inaccessible(void* at, std::uint64_t bytes) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (::mmap(at, bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED) return mapping_error("mmap");
  return {};
}

}  // namespace penstock
