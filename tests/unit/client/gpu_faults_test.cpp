// SPDX-License-Identifier: Apache-2.0
// Each error that a driver documents for a call of the library, or of finding the GPUs, once at each of its first
// occurrences in a short life of a table: the outcome is one of those that are foreseen, bytes are never wrong, and nothing
// is left. A run plays one vendor: PENSTOCK_TEST_GPU.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/device/cuda/cuda_table.hpp"
#include "dataplane/device/hip/hip_table.hpp"
#include "service/client/gpu_mapper.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/client/client_faults.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t page_bytes = 2u << 20;
constexpr std::uint32_t pages = 3;

enum class Outcome : std::uint8_t {
  done,         // As if nothing had happened, or after one more try.
  no_table,     // No address range.
  not_mapped,   // A page was refused, and the reason said; it works the next time.
  not_copied,   // A host copy was refused.
  not_noted,    // An unpin was refused: the page stays pinned.
  not_quiet,    // The program's work can't be asked about: its pages stay.
  not_removed,  // A page stays mapped.
  not_settled,  // The calling thread's work can't be waited for.
  wrong_bytes,  // Never.
};

std::string_view name_of(Outcome outcome) {
  constexpr std::array names{"done",      "no_table",    "not_mapped",  "not_copied", "not_noted",
                             "not_quiet", "not_removed", "not_settled", "wrong_bytes"};
  return names[static_cast<std::size_t>(outcome)];
}

constexpr auto done = Outcome::done, no_table = Outcome::no_table, not_mapped = Outcome::not_mapped,
               not_copied = Outcome::not_copied, not_noted = Outcome::not_noted,
               not_quiet = Outcome::not_quiet, not_removed = Outcome::not_removed,
               not_settled = Outcome::not_settled;

// By the CUDA name, or HIP's where there is no other.
const std::map<std::string_view, std::set<Outcome>> foreseen{
    {"cuMemAddressReserve", {no_table}},
    {"cuMemImportFromShareableHandle", {not_mapped}},
    {"cuMemMap", {not_mapped}},
    {"cuMemSetAccess", {not_mapped}},
    {"cuMemRelease", {done}},
    {"cuMemUnmap", {done}},
    {"cuMemAddressFree", {done}},
    {"hipSetDevice", {done, no_table, not_mapped}},
    {"hipGetDevice", {done}},
    {"cuMemcpyDtoHAsync", {not_copied}},
    {"cuStreamSynchronize", {not_copied}},
    {"cuStreamIsCapturing", {not_copied, not_noted, done}},
    {"cuEventCreate", {not_noted, done}},  // In a context that is over nothing runs.
    {"cuEventRecord", {not_noted, done}},
    {"cuEventQuery", {done, not_quiet}},
    {"cuEventSynchronize", {done}},
    {"cuEventDestroy", {done}},
    {"cuThreadExchangeStreamCaptureMode", {done}},
    {"cuCtxSynchronize", {not_settled, done}},
    {"cuCtxGetCurrent", {done}},
    {"cuCtxGetDevice", {done}},
};

// Two pages come, are read, one leaves, another takes its place, and all end.
class TableLife {
 public:
  explicit TableLife(const FakeGpu& fake, GpuVendor vendor)
      : gpu_{fake.gpu(), *open_program_streams(vendor)}, content_(page_bytes) {
    for (std::size_t at = 0; at < content_.size(); ++at) content_[at] = static_cast<std::byte>(at * 131 >> 4);
    for (UniqueFd& frame : frames_) {
      MemoryHandle handle{};
      CHECK(gpu_.driver->create(page_bytes, handle).ok() && gpu_.driver->export_fd(handle, frame).ok());
      CHECK(gpu_.driver->release(handle).ok());
      // Memory of a fake GPU is a file.
      CHECK(::pwrite(frame.get(), content_.data(), page_bytes, 0) == static_cast<ssize_t>(page_bytes));
    }
    CHECK(gpu_.driver->open_context(context_).ok() && context_->enter().ok());
    CHECK(context_->make_stream(stream_).ok());
  }
  ~TableLife() { static_cast<void>(context_->destroy_stream(stream_)); }

  Outcome run() {
    gpu_.contexts = std::make_shared<ProgramContexts>(gpu_.driver);
    auto made = GpuMapper::create(gpu_, pages, page_bytes);
    if (!made) return no_table;
    mapper_ = std::move(*made);
    const Outcome outcome = live();
    mapper_.reset();
    return outcome;
  }

 private:
  Outcome live() {
    if (!bring({0, 2})) return not_mapped;
    if (const Outcome seen = look(); seen != done) return seen;
    const auto again = look();  // Once more: what was refused by chance works.
    if (again != done) return again;
    void* const queue = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream_));
    // An unpin that is refused leaves the pin; a second one works.
    bool noted = true;
    for (std::uint32_t page = 0; page < 2; ++page) {
      if (mapper_->note_work({page, 1}, queue)) continue;
      noted = false;
      if (!mapper_->note_work({page, 1}, queue)) return Outcome::wrong_bytes;
    }
    // A query that is refused says nothing: the next one may.
    if (!eventually([&] { return mapper_->quiet(0); })) return not_quiet;
    if (!mapper_->remove(0)) return not_removed;
    if (!eventually([&] { return mapper_->quiet(1); })) return not_quiet;
    if (!bring({1, 1})) return not_mapped;
    const bool settled = mapper_->settle_thread().has_value();
    mapper_->forget_work();
    static_cast<void>(mapper_->note_work({1, 1}, queue));  // For the end to wait for.
    return !noted ? not_noted : settled ? done : not_settled;
  }

  // As Paging does: what is refused is reported, and the others stay.
  bool bring(PageSpan span) {
    for (std::uint32_t page = span.first; page != span.end(); ++page) {
      const auto placed = mapper_->place(page, frames_[page].get(), Access::read);
      if (!placed) return refused(placed.error());
    }
    if (const auto finished = mapper_->finish_run(span, Access::read); !finished) {
      for (std::uint32_t page = span.first; page != span.end(); ++page)
        static_cast<void>(mapper_->remove(page));
      return refused(finished.error());
    }
    return true;
  }
  bool refused(const Error& error) {
    const Failure failure = mapper_->refusal(error);
    EXPECT_TRUE(failure.kind == FailureKind::exhausted || failure.kind == FailureKind::device_unhealthy);
    EXPECT_NE(failure.message.find(error.operation), std::string::npos) << failure.message;
    return false;
  }
  Outcome look() {
    std::vector<std::byte> seen(2 * page_bytes);
    void* const queue = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream_));
    if (!mapper_->copy_out(0, seen.size(), seen.data(), queue)) return not_copied;
    const auto middle = seen.begin() + page_bytes;
    return std::equal(seen.begin(), middle, content_.begin()) &&
                   std::equal(middle, seen.end(), content_.begin())
               ? done
               : Outcome::wrong_bytes;
  }

  ProcessGpu gpu_;
  std::vector<std::byte> content_;
  std::array<UniqueFd, 2> frames_;
  std::unique_ptr<DriverContext> context_;
  StreamHandle stream_{};
  std::unique_ptr<PageMapper> mapper_;
};

TEST_F(ClientFaults, EachErrorOfMappingHasAForeseenOutcomeAndLeavesNothing) {
  TableLife table(fake_, is_hip() ? GpuVendor::hip : GpuVendor::cuda);
  inject(
      fake::by_client, [&] { return table.run(); },
      [&](const fake::DocumentedCall& call, const std::string& plan, Outcome outcome) {
        const auto& outcomes = foreseen.at(call.cuda != nullptr ? call.cuda : call.hip);
        EXPECT_TRUE(outcomes.contains(outcome)) << plan << ": " << name_of(outcome);
        EXPECT_EQ(last_error(), 0) << plan << ": the program would take it for its own";
      });
  EXPECT_EQ(table.run(), done);
}

TEST_F(ClientFaults, EachErrorOfFindingTheGpusIsAStateOfTheVendor) {
  const std::set<std::string_view> harmless{"cuDriverGetVersion", "hipRuntimeGetVersion", "cuDeviceGetName",
                                            "hipDeviceGetName"};
  inject(
      fake::by_start, [&] { return fake_.open(); },
      [&](const fake::DocumentedCall& call, const std::string& plan, const OpenedVendor& opened) {
        const bool usable = opened.report.state == VendorState::usable;
        EXPECT_EQ(usable, !opened.gpus.empty() && opened.gpus.front()->description().has_vmm) << plan;
        EXPECT_TRUE(usable || !opened.report.detail.empty()) << plan;
        if (std::string_view(name_of_call(call)) == "cuDeviceGetAttribute" ||
            std::string_view(name_of_call(call)) == "hipDeviceGetAttribute" || is_hip())
          return;  // It depends on what was asked for.
        EXPECT_EQ(usable, harmless.contains(name_of_call(call))) << plan;
      });
  EXPECT_EQ(fake_.open().report.state, VendorState::usable);
}

// A function that is added to a table needs its documented errors.
TEST_F(ClientFaults, TheListHasEveryFunctionOfTheTables) {
  const auto count = [](bool hip) {
    return static_cast<std::size_t>(std::count_if(
        std::begin(fake::documented_calls), std::end(fake::documented_calls), [hip](const auto& call) {
          return (call.tables & fake::in_driver) != 0 && (hip ? call.hip : call.cuda) != nullptr;
        }));
  };
  EXPECT_EQ(count(false), sizeof(CudaTable) / sizeof(void*));
  EXPECT_EQ(count(true), sizeof(HipTable) / sizeof(void*));
}

}  // namespace
}  // namespace penstock
