// SPDX-License-Identifier: Apache-2.0
#include "bpf/pressure.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "bpf/text_file.hpp"

namespace penstock {
namespace {

template <class Number>
bool read_number(std::string_view& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool skip(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

// " avg10=1.23 avg60=0.00 avg300=0.00 total=456": a newer kernel may put more in between.
std::optional<PressureLine> parse_line(std::string_view line) {
  std::uint32_t whole = 0, hundredths = 0;
  std::uint64_t microseconds = 0;
  if (!skip(line, " avg10=") || !read_number(line, whole) || !skip(line, ".")) return std::nullopt;
  if (!read_number(line, hundredths) || whole > 100 || hundredths > 99) return std::nullopt;
  const std::size_t total = line.find(" total=");
  if (total == std::string_view::npos) return std::nullopt;
  line.remove_prefix(total);
  if (!skip(line, " total=") || !read_number(line, microseconds)) return std::nullopt;
  if (microseconds > static_cast<std::uint64_t>(INT64_MAX) / 1000) return std::nullopt;
  return PressureLine{whole * 100 + hundredths, std::chrono::microseconds(microseconds)};
}

std::string cause_of(const Error& error) {
  if (error.code == Errc::corrupt) return "not understood";
  if (error.native == EOPNOTSUPP)
    return "the kernel has pressure accounting switched off (psi=1 turns it on)";
  return error.native != 0 ? std::strerror(error.native) : "not readable";
}

}  // namespace

Result<Pressure> parse_pressure(std::string_view text) {
  Pressure pressure;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (skip(line, "some")) pressure.some = parse_line(line);
    if (skip(line, "full")) pressure.full = parse_line(line);
  }
  if (!pressure.some && !pressure.full) return Error{Errc::corrupt, 0, "parse pressure"};
  return pressure;
}

PressureSource PressureSource::of_file(int directory, const char* path, std::string name) {
  const auto file = std::make_shared<TextFile>(path);
  return {std::move(name), [directory, file] { return file->read(directory); }};
}

std::optional<Pressure> PressureSource::read(Warnings& warnings) {
  const Result<std::string_view> text = read_();
  const Result<Pressure> pressure = text ? parse_pressure(*text) : text.error();
  available_ = pressure.has_value();
  if (!available_) {
    failed_ = true;
    warnings.add(fmt::format("{}: {}; pressure is not known", name_, cause_of(pressure.error())));
    return std::nullopt;
  }
  if (failed_) warnings.add(fmt::format("{}: pressure is known now", name_));
  failed_ = false;
  return *pressure;
}

}  // namespace penstock
