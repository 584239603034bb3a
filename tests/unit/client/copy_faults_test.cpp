// SPDX-License-Identifier: Apache-2.0
// Each documented error of the calls that a copy of a table makes.
#include <set>
#include <utility>
#include <vector>

#include "dataplane/base/check.hpp"
#include "service/client/table_copy.hpp"
#include "tests/unit/client/client_faults.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t page_bytes = 1u << 16;
// Three runs of pages, the last page not whole.
constexpr TableCopy::Size size{
    .bytes = 5 * page_bytes - 4096, .page_bytes = page_bytes, .pages = 5, .run_bytes = 2 * page_bytes};

enum class CopyOutcome : std::uint8_t { done, no_context, no_memory, not_filled, not_read, wrong };

class CopyLife {
 public:
  CopyLife(const FakeGpu& fake, GpuVendor vendor)
      : gpu_{fake.gpu(), *open_program_streams(vendor)}, content_(size.bytes) {
    for (std::size_t at = 0; at < content_.size(); ++at) content_[at] = static_cast<std::byte>(at * 131 >> 4);
    CHECK(gpu_.driver->open_context(context_).ok() && context_->enter().ok());
    CHECK(context_->make_stream(stream_).ok());
  }
  ~CopyLife() { static_cast<void>(context_->destroy_stream(stream_)); }

  CopyOutcome run() {
    gpu_.contexts = std::make_shared<ProgramContexts>(gpu_.driver);
    const CopyOutcome outcome = live();
    EXPECT_EQ(pinned_, 0);
    // The program's own context is still the thread's.
    DeviceMemoryFigures figures;
    EXPECT_TRUE(context_->memory_figures(figures).ok());
    return outcome;
  }

 private:
  CopyOutcome live() {
    std::unique_ptr<DriverContext> adopted;
    if (!gpu_.driver->adopt_context(adopted).ok()) return CopyOutcome::no_context;
    auto made = TableCopy::create({gpu_, std::move(adopted)}, size);
    if (!made) return expect_said(made.error(), CopyOutcome::no_memory);
    TableCopy& copy = **made;
    const PageSource source{.address = content_.data(),
                            .pin = [&](PageSpan) -> Outcome<void> { return ++pinned_, Outcome<void>(); },
                            .unpin = [&](PageSpan) { --pinned_; }};
    CopyOutcome outcome = CopyOutcome::done;
    if (const auto filled = copy.fill({0, size.pages}, source, never); !filled) {
      outcome = expect_said(filled.error(), CopyOutcome::not_filled);
      EXPECT_FALSE(copy.ready({0, size.pages}));
      // What was refused by chance works the next time.
      if (!copy.fill({0, size.pages}, source, never)) return CopyOutcome::wrong;
    }
    EXPECT_TRUE(copy.ready({0, size.pages}));
    std::vector<std::byte> seen(size.bytes);
    void* const queue = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream_));
    if (!copy.copy_out(0, seen.size(), seen.data(), queue)) {
      outcome = CopyOutcome::not_read;
      if (!copy.copy_out(0, seen.size(), seen.data(), queue)) return CopyOutcome::wrong;
    }
    return seen == content_ ? outcome : CopyOutcome::wrong;
  }
  static CopyOutcome expect_said(const Failure& failure, CopyOutcome outcome) {
    EXPECT_TRUE(failure.kind == FailureKind::exhausted || failure.kind == FailureKind::device_unhealthy);
    EXPECT_NE(failure.message.find(" answered "), std::string::npos) << failure.message;
    return outcome;
  }

  ProcessGpu gpu_;
  std::vector<std::byte> content_;
  std::unique_ptr<DriverContext> context_;
  StreamHandle stream_{};
  int pinned_ = 0;
};

TEST_F(ClientFaults, EachErrorOfCopyingATableHasAForeseenOutcomeAndLeavesNothing) {
  using enum CopyOutcome;
  const std::map<std::string_view, std::set<CopyOutcome>> foreseen{
      {"cuCtxGetCurrent", {no_context, done}},
      {"cuCtxGetDevice", {no_context, done}},
      // Out of memory is tried again with fewer pages.
      {"cuCtxPushCurrent", {no_memory, not_filled}},
      {"cuCtxPopCurrent", {done}},
      {"hipSetDevice", {done, no_memory, not_filled}},
      {"hipGetDevice", {no_context, done}},
      {"cuMemAlloc", {no_memory}},
      {"cuMemFree", {done}},
      {"cuMemcpyHtoDAsync", {not_filled, done}},
      {"cuMemcpyDtoHAsync", {not_read}},
      {"cuStreamCreate", {not_filled, done}},
      {"cuStreamDestroy", {done}},
      {"cuStreamSynchronize", {not_filled, not_read, done}},
      {"cuStreamIsCapturing", {not_read}},
      {"cuThreadExchangeStreamCaptureMode", {done}},
  };
  CopyLife table(fake_, is_hip() ? GpuVendor::hip : GpuVendor::cuda);
  inject(
      fake::by_copy, [&] { return table.run(); },
      [&](const fake::DocumentedCall& call, const std::string& plan, CopyOutcome outcome) {
        EXPECT_TRUE(foreseen.at(call.cuda != nullptr ? call.cuda : call.hip).contains(outcome))
            << plan << ": " << static_cast<int>(outcome);
        // Where its own look failed it knows.
        EXPECT_TRUE(outcome == no_context || last_error() == 0)
            << plan << ": the program would take it for its own";
        clear_last_error();
      });
  EXPECT_EQ(table.run(), done);
}

}  // namespace
}  // namespace penstock
