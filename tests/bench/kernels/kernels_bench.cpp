// SPDX-License-Identifier: Apache-2.0
// Conversion and checksum on one core, at every level of vector unit that the processor has, beside memcpy of the same
// bytes in the same round. Prints one JSON object.
//
// bench_kernels [--bytes 16MiB] [--rounds 5]     bytes of source for each measurement
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "dataplane/base/units.hpp"
#include "dataplane/kernels/vector_level.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

struct Pair {
  Dtype from, to;
};
constexpr Pair pairs[] = {
    {Dtype::f32, Dtype::f16},     {Dtype::f32, Dtype::bf16},     {Dtype::f32, Dtype::f8_e4m3},
    {Dtype::f16, Dtype::bf16},    {Dtype::f16, Dtype::f32},      {Dtype::f16, Dtype::f8_e4m3},
    {Dtype::bf16, Dtype::f16},    {Dtype::bf16, Dtype::f32},     {Dtype::bf16, Dtype::f8_e4m3},
    {Dtype::f8_e4m3, Dtype::f16}, {Dtype::f8_e4m3, Dtype::bf16}, {Dtype::f8_e5m2, Dtype::f16}};

template <class Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string name_of(const Pair& pair) {
  return fmt::format("{}_to_{}", dtype_name(pair.from), dtype_name(pair.to));
}

// 10^9 bytes of source a second, in each round.
struct Rates {
  std::vector<double> copy;
  std::vector<std::vector<double>> at_level;
};

class Bench {
 public:
  explicit Bench(std::size_t bytes) : source_(bytes), destination_(4 * bytes) {
    std::uint64_t state = 1;
    // Ordinary numbers in each of the formats: no exponent is at its top.
    for (std::byte& byte : source_) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<std::byte>(state >> 33 & 0x6f);
    }
    std::memset(destination_.data(), 1, destination_.size());
  }

  double copy() {
    return rate([this] { std::memcpy(destination_.data(), source_.data(), source_.size()); });
  }
  double convert(VectorLevel level, const Pair& pair, float scale) {
    const std::size_t size = source_.size() / dtype_bits(pair.from) * dtype_bits(pair.to);
    return rate(
        [&] { convert_at(level, pair.from, source_, pair.to, std::span(destination_).first(size), scale); });
  }
  double checksum(VectorLevel level) {
    return rate([&] { sink_ = sink_ + checksum_at(level, source_); });
  }

 private:
  template <class Work>
  double rate(const Work& work) const {
    return static_cast<double>(source_.size()) / seconds(work) / 1e9;
  }

  std::vector<std::byte> source_, destination_;
  volatile std::uint64_t sink_ = 0;
};

template <class Measure>
nlohmann::json measure(Bench& bench, int rounds, const Measure& at) {
  const std::span<const VectorLevel> levels = vector_levels();
  Rates rates{.copy = {}, .at_level = std::vector<std::vector<double>>(levels.size())};
  for (int round = 0; round < rounds; ++round) {
    rates.copy.push_back(bench.copy());
    for (std::size_t level = 0; level < levels.size(); ++level)
      rates.at_level[level].push_back(at(levels[level]));
  }
  nlohmann::json result = {{"memcpy", median(rates.copy)}};
  for (std::size_t level = 0; level < levels.size(); ++level)
    result[std::string(vector_level_name(levels[level]))] = median(rates.at_level[level]);
  return result;
}

int run(std::size_t bytes, int rounds) {
  Bench bench(bytes);
  nlohmann::json result = {{"benchmark", "kernels"},
                           {"unit", "10^9 bytes of source a second, one core"},
                           {"bytes", bytes},
                           {"rounds", rounds}};
  bench.copy();
  for (const Pair& pair : pairs) {
    result["convert"][name_of(pair)] =
        measure(bench, rounds, [&](VectorLevel level) { return bench.convert(level, pair, 1.0f); });
  }
  result["convert"]["F8_E4M3_to_BF16_scaled"] = measure(bench, rounds, [&](VectorLevel level) {
    return bench.convert(level, {Dtype::f8_e4m3, Dtype::bf16}, 0.37f);
  });
  result["checksum"] = measure(bench, rounds, [&](VectorLevel level) { return bench.checksum(level); });
  fmt::print("{}\n", result.dump(2));
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  std::size_t bytes = 16 << 20;
  int rounds = 5;
  for (int index = 1; index + 1 < count; index += 2) {
    const std::string name = arguments[index];
    if (name == "--bytes") bytes = penstock::parse_bytes(arguments[index + 1]).value_or(bytes);
    if (name == "--rounds") rounds = std::stoi(arguments[index + 1]);
  }
  return penstock::bench::run(bytes / 4 * 4, rounds);
}
