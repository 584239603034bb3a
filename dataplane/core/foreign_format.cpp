// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/foreign_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "dataplane/base/quote.hpp"
#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

using namespace std::string_view_literals;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool starts_with_ignoring_case(std::string_view text, std::string_view lower) {
  const auto same = [](char a, char b) {
    return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b);
  };
  return text.size() >= lower.size() && std::equal(lower.begin(), lower.end(), text.begin(), same);
}

// ASCII throughout the first 8 bytes; a length below 2^56 has a zero byte there.
bool is_text(std::string_view prefix) {
  const std::string_view start = prefix.substr(0, 8);
  return !start.empty() &&
         std::ranges::all_of(start, [](char c) { return (c >= 0x20 && c < 0x7f) || is_space(c); });
}

// The value of a line "key value" of an LFS pointer; empty when absent.
std::string_view pointer_field(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ') {
      std::string_view value = line.substr(key.size() + 1);
      if (value.ends_with('\r')) value.remove_suffix(1);
      return value;
    }
    at = end + 1;
  }
  return {};
}

std::optional<Failure> recognize_lfs_pointer(std::string_view prefix, std::uint64_t file_bytes) {
  if (!prefix.starts_with("version https://git-lfs.github.com/spec/") &&
      !prefix.starts_with("version https://hawser.github.com/spec/")) {
    return std::nullopt;
  }
  const std::string_view size = pointer_field(prefix, "size");
  const std::string_view oid = pointer_field(prefix, "oid");
  std::uint64_t wanted = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), wanted);
  std::string message = fmt::format("is a Git-LFS pointer: {} bytes found", file_bytes);
  if (error == std::errc{} && end == size.data() + size.size()) {
    message += fmt::format(", {} bytes ({}) wanted", wanted, format_bytes(wanted));
  }
  if (!oid.empty()) message += fmt::format(", object {}", quote(oid, 80));
  return Failure{FailureKind::lfs_pointer, std::move(message),
                 "the repository was cloned without its large files: run `git lfs pull` there"};
}

std::optional<Failure> recognize_text(std::string_view prefix, std::uint64_t file_bytes) {
  std::string_view text = prefix;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (!is_text(text)) return std::nullopt;
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  const std::string start = quote(text.substr(0, 40));
  constexpr std::array markup = {"<!doctype html"sv, "<html"sv, "<head"sv, "<body"sv, "<!--"sv};
  if (std::ranges::any_of(markup,
                          [&](std::string_view tag) { return starts_with_ignoring_case(text, tag); })) {
    return Failure{
        FailureKind::html, fmt::format("is an HTML page of {} bytes, starting {}", file_bytes, start),
        "a login or error page was saved instead of the weights: download it again, with credentials"};
  }
  if (text.starts_with('{') || text.starts_with('[')) {
    return Failure{FailureKind::json_text,
                   fmt::format("is JSON text of {} bytes, starting {}", file_bytes, start),
                   "an error message or an index file stands where the weights should be"};
  }
  return Failure{FailureKind::unknown_format,
                 fmt::format("is text of {} bytes, starting {}, not a checkpoint", file_bytes, start), ""};
}

std::optional<Failure> recognize_binary(std::string_view prefix, std::uint64_t file_bytes) {
  const auto is_any = [&](auto&&... magics) { return (prefix.starts_with(magics) || ...); };
  if (is_any("PK\x03\x04"sv, "PK\x05\x06"sv, "PK\x07\x08"sv)) {
    return Failure{
        FailureKind::zip,
        fmt::format("is a zip archive of {} bytes (PyTorch's torch.save writes those)", file_bytes),
        "convert it to safetensors; pickled weights can run code and are never opened"};
  }
  if (is_any("\x80\x02"sv, "\x80\x03"sv, "\x80\x04"sv, "\x80\x05"sv)) {
    return Failure{FailureKind::pickle,
                   fmt::format("is a Python pickle (protocol {}) of {} bytes", int{prefix[1]}, file_bytes),
                   "convert it to safetensors; pickled weights can run code and are never opened"};
  }
  if (is_any("GGUF"sv, "FUGG"sv)) {
    return Failure{FailureKind::gguf, fmt::format("is GGUF of {} bytes, which is not supported", file_bytes),
                   "use the safetensors form of this model"};
  }
  struct Known {
    std::string_view magic;
    std::string_view name;
  };
  constexpr std::array others = {
      Known{"\x1f\x8b"sv, "gzip"},
      Known{"\x89HDF\r\n"sv, "HDF5"},
      Known{"\x28\xb5\x2f\xfd"sv, "zstd"},
      Known{"7z\xbc\xaf\x27\x1c"sv, "7z"},
      Known{"\xfd"
            "7zXZ"sv,
            "xz"},
      Known{"Rar!"sv, "RAR"},
      Known{"\x93NUMPY"sv, "NumPy"},
      Known{"%PDF"sv, "PDF"},
      Known{"\x89PNG"sv, "PNG"},
      Known{"ggjt"sv, "old GGML"},
      Known{"lmgg"sv, "old GGML"},
      Known{"\x7f"
            "ELF"sv,
            "ELF"},
  };
  for (const Known& known : others) {
    if (!prefix.starts_with(known.magic)) continue;
    return Failure{FailureKind::unknown_format,
                   fmt::format("is {} data of {} bytes, not a checkpoint", known.name, file_bytes), ""};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Failure> recognize_foreign_format(std::span<const std::byte> prefix, std::uint64_t file_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(prefix.data()), prefix.size());
  if (auto failure = recognize_lfs_pointer(text, file_bytes)) return failure;
  if (auto failure = recognize_binary(text, file_bytes)) return failure;
  return recognize_text(text, file_bytes);
}

}  // namespace penstock
