// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/fio.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/bench/statistics.hpp"
#include "tests/support/random_file.hpp"

namespace penstock::bench {
namespace {

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> part;
  for (std::size_t count; (count = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    text.append(part.data(), count);
  }
  return ::pclose(pipe) == 0 ? text : std::string();
}

}  // namespace

std::optional<double> fio_read_rate(const std::filesystem::path& file, std::uint64_t bytes,
                                    const FioShape& shape) {
  test::drop_from_page_cache(file);
  const std::string text = output_of(
      fmt::format("fio --name=limit --filename={} --rw=read --direct=1 --ioengine=io_uring --bs={} "
                  "--iodepth={} --size={} "
                  "--readonly --fixedbufs=1 --registerfiles=1 --iomem={} --output-format=json 2>/dev/null",
                  file.string(), shape.block, shape.depth, bytes, shape.huge_pages ? "mmaphuge" : "mmap"));
  const auto report = nlohmann::json::parse(text, nullptr, false);
  if (report.is_discarded() || !report.contains("jobs") || report["jobs"].empty()) return std::nullopt;
  return report["jobs"][0]["read"]["bw_bytes"].get<double>();
}

std::optional<FioShape> fastest_fio_shape(const std::filesystem::path& file, std::uint64_t bytes,
                                          bool huge_pages, int rounds) {
  const std::array<FioShape, 2> shapes = {FioShape{.block = "512k", .depth = 16, .huge_pages = huge_pages},
                                          FioShape{.block = "1M", .depth = 8, .huge_pages = huge_pages}};
  std::array<std::vector<double>, 2> rates;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t index = 0; index < shapes.size(); ++index) {
      const auto rate = fio_read_rate(file, bytes, shapes[index]);
      // Somebody else may have taken the huge pages.
      if (!rate) return huge_pages ? fastest_fio_shape(file, bytes, false, rounds) : std::nullopt;
      rates[index].push_back(*rate);
    }
  }
  return shapes[median(rates[0]) >= median(rates[1]) ? 0 : 1];
}

}  // namespace penstock::bench
