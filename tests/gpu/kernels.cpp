// SPDX-License-Identifier: Apache-2.0
// The device code on this GPU against the reference on the CPU, bit by bit.
#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "dataplane/kernels/convert.hpp"
#include "dataplane/kernels/device_code.hpp"
#include "tests/gpu/experiments.hpp"
#include "tests/gpu/machine.hpp"

namespace penstock::gpu_check {
namespace {

constexpr Dtype kinds[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8_e4m3, Dtype::f8_e5m2};

// Frames to read and to write, and page-locked memory for lists.
struct Bench {
  Gpu& gpu;
  Frame source{gpu.driver()}, target{gpu.driver()};
  void* lists = nullptr;
  DeviceAddress lists_on_device{};
  std::vector<ScatterPiece> pieces{};
  std::vector<ChecksumTile> tiles{};

  bool open() {
    return source.make_mapped().ok() && target.make_mapped().ok() &&
           gpu.context().allocate_host(1 << 20, lists).ok() &&
           gpu.context().device_address(lists, lists_on_device).ok();
  }
  void close() { static_cast<void>(gpu.context().free_host(lists)); }

  bool scatter(const ScatterPiece& whole) {
    pieces.clear();
    cut_pieces(whole, pieces);
    return launch();
  }
  // What is in `pieces`.
  bool launch() {
    std::memcpy(lists, pieces.data(), pieces.size() * sizeof pieces[0]);
    return gpu.context()
               .launch_scatter(lists_on_device, static_cast<std::uint32_t>(pieces.size()), gpu.stream())
               .ok() &&
           gpu.context().synchronize(gpu.stream()).ok();
  }

  // Of the source frame's first bytes. Sums arrive at the target's start.
  std::optional<std::uint64_t> sum(std::uint64_t bytes) {
    tiles.clear();
    cut_tiles(static_cast<std::uint64_t>(source.at()), bytes, 0, tiles);
    std::memcpy(lists, tiles.data(), tiles.size() * sizeof tiles[0]);
    std::uint64_t sum = 0;
    DriverContext& context = gpu.context();
    const bool done = context.zero(target.at(), 8, gpu.stream()).ok() &&
                      context
                          .launch_checksum(lists_on_device, static_cast<std::uint32_t>(tiles.size()),
                                           target.at(), gpu.stream())
                          .ok() &&
                      context.copy_out(&sum, target.at(), sizeof sum, gpu.stream()).ok() &&
                      context.synchronize(gpu.stream()).ok();
    if (!done) return std::nullopt;
    return checksum_total(sum, bytes);
  }
};

// From odd places too, where the formats' sizes allow no wide access.
bool converts_alike(Bench& bench, const std::vector<std::byte>& bytes, Dtype stored, Dtype wanted,
                    std::uint64_t skew, float factor) {
  const ElementKind from = element_kind(stored), to = element_kind(wanted);
  const std::uint64_t elements = bytes.size() / 4 - 8;
  const bool copied = stored == wanted && factor == 1;
  const ScatterPiece whole{.source = static_cast<std::uint64_t>(bench.source.at() + skew),
                           .destination = static_cast<std::uint64_t>(bench.target.at() + 3 * skew),
                           .elements = copied ? elements * element_bytes(from) : elements,
                           .scale = factor,
                           .stored = copied ? ElementKind::bytes : from,
                           .wanted = copied ? ElementKind::bytes : to,
                           .zero = 0};
  if (!bench.scatter(whole)) return false;
  std::vector<std::byte> expected(elements * element_bytes(to));
  convert(stored, std::span(bytes).subspan(skew, elements * element_bytes(from)), wanted, expected, factor);
  const std::vector<std::byte> got = content(bench.gpu, bench.target);
  return got.size() >= expected.size() + 3 * skew &&
         std::ranges::equal(std::span(got).subspan(3 * skew, expected.size()), expected);
}

// A staged extent in page-locked memory, whose pieces go to places of their own.
struct Extent {
  Bench& bench;
  std::span<std::byte> staged{};
  DeviceAddress staged_on_device{};
  std::vector<std::byte> expected = std::vector<std::byte>(bench.target.bytes());
  struct Piece {
    std::uint64_t from, to, bytes;
  };
  std::vector<Piece> pieces{};

  bool open(std::uint64_t bytes) {
    void* memory = nullptr;
    if (!bench.gpu.context().allocate_host(bytes, memory).ok()) return false;
    staged = {static_cast<std::byte*>(memory), bytes};
    std::ranges::copy(pattern(23, bytes), staged.begin());
    return bench.gpu.context().device_address(memory, staged_on_device).ok();
  }
  void close() { static_cast<void>(bench.gpu.context().free_host(staged.data())); }
  void cut(std::uint64_t piece_bytes) {
    pieces.clear();
    std::ranges::fill(expected, std::byte{});
    for (std::uint64_t at = 0; at + piece_bytes <= staged.size(); at += piece_bytes) {
      // Each third is aligned, as most tensors are.
      const std::uint64_t skew = pieces.size() % 3;
      pieces.push_back({at + skew, at + 2 * skew, piece_bytes - 2 * skew});
      const Piece& piece = pieces.back();
      std::copy_n(staged.begin() + static_cast<std::ptrdiff_t>(piece.from), piece.bytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(piece.to));
    }
  }
  bool launch() {
    bench.pieces.clear();
    for (const Piece& piece : pieces)
      cut_pieces({.source = static_cast<std::uint64_t>(staged_on_device + piece.from),
                  .destination = static_cast<std::uint64_t>(bench.target.at() + piece.to),
                  .elements = piece.bytes,
                  .scale = 1,
                  .stored = ElementKind::bytes,
                  .wanted = ElementKind::bytes,
                  .zero = 0},
                 bench.pieces);
    return bench.launch();
  }
  bool copy() {
    DriverContext& context = bench.gpu.context();
    bool fine = true;
    for (const Piece& piece : pieces)
      fine = fine && context
                         .copy_in(bench.target.at() + piece.to, staged.data() + piece.from, piece.bytes,
                                  bench.gpu.stream())
                         .ok();
    return fine && context.synchronize(bench.gpu.stream()).ok();
  }
  bool arrives(bool (Extent::*place)()) {
    DriverContext& context = bench.gpu.context();
    return context.zero(bench.target.at(), bench.target.bytes(), bench.gpu.stream()).ok() &&
           (this->*place)() && content(bench.gpu, bench.target) == expected;
  }
};

double rate_of(Bench& bench, std::uint64_t bytes, const auto& call) {
  call(bench);
  const double seconds = seconds_of([&] {
    for (int round = 0; round < 10; ++round) call(bench);
  });
  return 10 * static_cast<double>(bytes) / seconds / 1e9;
}

// What small pieces cost the engine, a command each, and the kernel, one launch for all.
void place_extents(Bench& bench, Report& report) {
  Extent extent{.bench = bench};
  if (!report.expect(extent.open(scale().is_small ? 512 << 10 : 8 << 20), "page-locked memory is made"))
    return;
  for (const std::uint64_t kib : {1, 4, 16, 64, 256}) {
    extent.cut(kib << 10);
    const std::string name = fmt::format("{} pieces of {} KiB", extent.pieces.size(), kib);
    report.expect(extent.arrives(&Extent::launch), name + " are placed by one launch, bit by bit");
    report.expect(extent.arrives(&Extent::copy), name + " are placed by copies");
    report.figure(fmt::format("place_{}KiB_by_launch_GB_per_s", kib),
                  rate_of(bench, extent.staged.size(), [&](Bench&) { extent.launch(); }));
    report.figure(fmt::format("place_{}KiB_by_copies_GB_per_s", kib),
                  rate_of(bench, extent.staged.size(), [&](Bench&) { extent.copy(); }));
  }
  extent.close();
}

}  // namespace

void kernels_equal_reference(Report& report) {
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  if (const DriverCode code = gpu->context().load_kernels(); !code.ok())
    return report.skip(
        fmt::format("requires device code for this GPU: {} answered {}", code.call, code.native));
  Bench bench{.gpu = *gpu};
  if (!report.expect(bench.open(), "frames and page-locked memory are made")) return;
  const std::uint64_t bytes = bench.source.bytes();
  const std::vector<std::byte> source = pattern(17, bytes);
  report.expect(fill(*gpu, bench.source, 17), "the source is filled");
  const std::vector<std::byte> part(source.begin(), source.begin() + (1 << 20));
  std::uint64_t compared = 0;
  for (const Dtype stored : kinds)
    for (const Dtype wanted : kinds)
      for (const std::uint64_t skew : {0, 1})
        for (const float factor : {1.0F, 0.37F}) {
          compared += part.size() / 4;
          report.expect(converts_alike(bench, part, stored, wanted, skew, factor),
                        fmt::format("dtype {} to {} by {} at {} is bit-equal", static_cast<int>(stored),
                                    static_cast<int>(wanted), factor, skew));
        }
  report.figure("elements_compared", compared);
  for (const std::uint64_t length : {bytes, bytes - 5, std::uint64_t{12345}, std::uint64_t{1}})
    report.expect(bench.sum(length) == checksum(std::span(source).first(length)),
                  fmt::format("the checksum of {} bytes is the reference's", length));
  report.figure("checksum_GB_per_s", rate_of(bench, bytes, [bytes](Bench& on) { on.sum(bytes); }));
  const ScatterPiece cast{.source = static_cast<std::uint64_t>(bench.source.at()),
                          .destination = static_cast<std::uint64_t>(bench.target.at()),
                          .elements = bytes / 4,
                          .scale = 1,
                          .stored = ElementKind::f32,
                          .wanted = ElementKind::bf16,
                          .zero = 0};
  report.figure("f32_to_bf16_GB_per_s", rate_of(bench, bytes, [&](Bench& on) { on.scatter(cast); }));
  place_extents(bench, report);
  bench.close();
}

}  // namespace penstock::gpu_check
