// SPDX-License-Identifier: Apache-2.0
// GpuMapper: frames of a GPU, in one address range that its driver reserved. It uses the driver that the program has
// loaded, and the calling thread's context as it is.
//
//   M1. A page is accessible only after finish_run, with one access call a run. No call spoils a capture, except for
//       settle_thread.
//   M2. Imported handles live from place to finish_run; the mapping keeps the memory from then on.
//   M3. A page is unmapped only while it is quiet (ProgramWork).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "dataplane/device/gpu/gpu_driver.hpp"
#include "dataplane/device/gpu/program_streams.hpp"
#include "service/client/page_mapper.hpp"
#include "service/client/program_contexts.hpp"
#include "service/client/program_work.hpp"

namespace penstock {

// One GPU as this process reaches it.
struct ProcessGpu {
  std::shared_ptr<GpuDriver> driver;
  std::shared_ptr<ProgramStreams> streams;
  std::shared_ptr<ProgramContexts> contexts = std::make_shared<ProgramContexts>(driver);
};

class GpuMapper final : public PageMapper {
 public:
  static Result<std::unique_ptr<PageMapper>> create(const ProcessGpu& gpu, std::uint32_t pages,
                                                    std::uint64_t page_bytes);
  // Waits for the work that was noted. Where it can't, the range stays as it is until the process ends.
  ~GpuMapper() override;

  std::byte* address() const override;
  Result<> place(std::uint32_t page, int fd, Access access) override;
  Result<> finish_run(PageSpan placed, Access access) override;
  bool gains_by_waiting() const override { return true; }
  bool needs_descriptors() const override { return !gpu_.driver->imports_at_once(); }
  bool usable_unfinished() const override { return false; }
  Failure refusal(const Error& error) const override;
  bool replaces_at_once() const override { return false; }
  Result<> remove(std::uint32_t page) override;
  bool is_mapped(std::uint32_t page) const override { return pages_[page].mapped; }
  Result<> unmap_all() override;

  Result<> note_work(PageSpan span, void* stream) override {
    return work_.note(span, StreamHandle{reinterpret_cast<std::uintptr_t>(stream)});
  }
  bool quiet(std::uint32_t page) override { return work_.quiet(page); }
  void note_unknown(std::uint32_t page) override { work_.note_unknown(page); }
  void forget_work() override { work_.forget(); }
  Ending ending(bool pinned) override { return pinned ? Ending::unknown : work_.ending(); }
  Result<> settle_thread() override { return settle_program(*gpu_.streams, *gpu_.contexts); }
  Result<> copy_out(std::uint64_t offset, std::uint64_t bytes, void* to, void* stream) override {
    return copy_to_host(*gpu_.streams, base_ + offset, bytes, to, stream);
  }

  // Frames of a GPU have no copies.
  Result<> make_writable(std::uint32_t) override { return Error{Errc::unsupported, 0, "copy-on-write"}; }
  Result<> drop_copies(std::uint32_t) override { return Error{Errc::unsupported, 0, "copy-on-write"}; }

 private:
  struct Page {
    bool mapped = false;
    std::optional<MemoryHandle> imported;
  };
  class DeviceKept;

  GpuMapper(const ProcessGpu& gpu, DeviceAddress base, std::uint32_t pages, std::uint64_t page_bytes);
  DeviceAddress at(std::uint32_t page) const { return base_ + page * page_bytes_; }
  void release_handles(PageSpan span);
  Result<> unmap_run(PageSpan run);

  const ProcessGpu gpu_;
  const DeviceAddress base_;
  const std::uint64_t page_bytes_;

  std::vector<Page> pages_;
  ProgramWork work_;  // Its lock comes after the device's.
};

}  // namespace penstock
