// SPDX-License-Identifier: Apache-2.0
// HostMapper: frames that are memfds, in one reserved range. Children made by fork get none of them.
#pragma once

#include <memory>
#include <utility>

#include "service/client/fork_gate.hpp"
#include "service/client/page_mapper.hpp"

namespace penstock {

class HostMapper final : public PageMapper {
 public:
  // `copies`: pages that are mapped to be read can be made writable, for this process alone.
  static Result<std::unique_ptr<PageMapper>> create(std::uint32_t pages, std::uint64_t page_bytes,
                                                    bool copies);

  std::byte* address() const override { return range_->data(); }
  Result<> place(std::uint32_t page, int fd, Access access) override;
  Result<> finish_run(PageSpan, Access) override { return {}; }
  bool gains_by_waiting() const override { return false; }  // There is nothing to finish.
  bool needs_descriptors() const override { return false; }
  bool usable_unfinished() const override { return true; }
  Failure refusal(const Error& error) const override;
  bool replaces_at_once() const override { return true; }
  Result<> remove(std::uint32_t page) override;
  bool is_mapped(std::uint32_t) const override { return true; }
  Result<> unmap_all() override {
    return {};
  }  // By the destructor: the kernel has no reason to refuse the whole range.

  // The processor reads while the page is pinned, and not after.
  Result<> note_work(PageSpan, void* stream) override {
    if (stream != nullptr) return Error{Errc::invalid, 0, "host memory has no streams"};
    return {};
  }
  bool quiet(std::uint32_t) override { return true; }
  void note_unknown(std::uint32_t) override {}
  void forget_work() override {}
  Ending ending(bool) override { return Ending::now; }
  Result<> settle_thread() override { return {}; }

  Result<> copy_out(std::uint64_t offset, std::uint64_t bytes, void* to, void* stream) override;

  Result<> make_writable(std::uint32_t page) override;
  Result<> drop_copies(std::uint32_t page) override;

 private:
  HostMapper(Mapping range, std::uint64_t page_bytes, bool copies)
      : range_(std::move(range)), page_bytes_(page_bytes), copies_(copies) {}
  std::uint64_t at(std::uint32_t page) const { return page * page_bytes_; }

  ForkAwareRange range_;
  const std::uint64_t page_bytes_;
  const bool copies_;
};

}  // namespace penstock
