// SPDX-License-Identifier: Apache-2.0
// GpuMapper: frames of a GPU, in one address range that its driver reserved. It uses the driver that the program has
// loaded, and the calling thread's context as it is.
//
//   M1. A page is accessible only after finish_run, with one access call a run. No call spoils a capture, except for
//       settle_thread.
//   M2. Imported handles live from place to finish_run; the mapping keeps the memory from then on.
//   M3. A page is unmapped only while it is quiet: each event that was recorded at its unpins is reached, and the stream
//       that was seen last does not capture.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dataplane/device/gpu/gpu_driver.hpp"
#include "dataplane/device/gpu/program_streams.hpp"
#include "service/client/page_mapper.hpp"

namespace penstock {

// One GPU as this process reaches it.
struct ProcessGpu {
  std::shared_ptr<GpuDriver> driver;
  std::shared_ptr<ProgramStreams> streams;
};

// Behind what is queued on `stream`, in the calling thread's context. Errc::busy while that captures.
Result<> copy_to_host(ProgramStreams& streams, DeviceAddress from, std::uint64_t bytes, void* to,
                      void* stream);

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

  Result<> note_work(PageSpan span, void* stream) override;
  bool quiet(std::uint32_t page) override;
  void forget_work() override;
  Ending ending(bool pinned) override;
  Result<> settle_thread() override;
  Result<> copy_out(std::uint64_t offset, std::uint64_t bytes, void* to, void* stream) override;

  // Frames of a GPU have no copies.
  Result<> make_writable(std::uint32_t) override { return Error{Errc::unsupported, 0, "copy-on-write"}; }
  Result<> drop_copies(std::uint32_t) override { return Error{Errc::unsupported, 0, "copy-on-write"}; }

 private:
  // An event behind the last work of one stream, shared by the pages of an unpin.
  struct Mark {
    Mark(GpuMapper& mapper, StreamHandle on) : owner(mapper), stream(on) {}
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    ~Mark();
    GpuMapper& owner;
    StreamHandle stream;
    std::optional<EventHandle> event;
    bool reached = false;  // Pages of one unpin share it: it is asked once.
  };
  struct Page {
    bool mapped = false;
    std::optional<MemoryHandle> imported;
    std::vector<std::shared_ptr<Mark>> marks;  // One a stream; under work_.
  };
  class DeviceKept;

  GpuMapper(const ProcessGpu& gpu, DeviceAddress base, std::uint32_t pages, std::uint64_t page_bytes);
  DeviceAddress at(std::uint32_t page) const { return base_ + page * page_bytes_; }
  void release_handles(PageSpan span);
  void unmap_run(PageSpan run);
  DriverCode record(Mark& mark);
  Ending ask(Mark& mark);
  bool wait(Mark& mark);

  const ProcessGpu gpu_;
  const DeviceAddress base_;
  const std::uint64_t page_bytes_;

  std::mutex work_;  // After the device's lock. Guards what follows, of pages_ the marks alone.
  bool capturing_ = false;
  std::vector<EventHandle> spare_;
  std::vector<Page> pages_;
};

}  // namespace penstock
