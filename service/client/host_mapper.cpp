// SPDX-License-Identifier: Apache-2.0
#include "service/client/host_mapper.hpp"

#include <algorithm>
#include <cstring>

#include "service/client/status.hpp"

namespace penstock {

Result<std::unique_ptr<PageMapper>> HostMapper::create(std::uint32_t pages, std::uint64_t page_bytes,
                                                       bool copies) {
  Mapping range = TRY(Mapping::reserve(std::max(pages * page_bytes, small_page_bytes), huge_page_bytes));
  return std::unique_ptr<PageMapper>(new HostMapper(std::move(range), page_bytes, copies));
}

Result<> HostMapper::place(std::uint32_t page, int fd, Access access) {
  return range_->place(at(page), fd, page_bytes_, access, 0,
                       copies_ && access == Access::read ? Sharing::copy_on_write : Sharing::shared);
}

Failure HostMapper::refusal(const Error& error) const {
  return {FailureKind::exhausted, to_failure(error, "mapping a page").message,
          "is vm.max_map_count too low, or RLIMIT_AS in the way?"};
}

Result<> HostMapper::remove(std::uint32_t page) { return range_->unplace(at(page), page_bytes_); }

Result<> HostMapper::copy_out(std::uint64_t offset, std::uint64_t bytes, void* to, void* stream) {
  TRY(note_work({}, stream));
  std::memcpy(to, range_->data() + offset, bytes);
  return {};
}

Result<> HostMapper::make_writable(std::uint32_t page) {
  return range_->protect(at(page), page_bytes_, Access::read_write);
}

Result<> HostMapper::drop_copies(std::uint32_t page) {
  TRY(range_->drop_copies(at(page), page_bytes_));
  return range_->protect(at(page), page_bytes_, Access::read);
}

}  // namespace penstock
