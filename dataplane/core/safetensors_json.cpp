// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <simdjson.h>

#include "dataplane/base/quote.hpp"
#include "dataplane/core/checkpoint_parser.hpp"
#include "dataplane/core/safetensors.hpp"

namespace penstock {
namespace {

namespace dom = simdjson::dom;

tl::unexpected<Failure> invalid(std::string message) {
  return fail(FailureKind::invalid_header, std::move(message),
              "the file is damaged or was written by a broken program");
}

tl::unexpected<Failure> invalid_field(std::string_view tensor, std::string_view field,
                                      std::string_view wanted) {
  return invalid(fmt::format("tensor {}: \"{}\" must be {}", quote(tensor), field, wanted));
}

// An upper bound of the values in the text, found before anything is allocated for them.
std::uint64_t count_values(std::string_view json) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(json, [](char c) { return c == ',' || c == '[' || c == '{'; }));
}

Outcome<std::pair<std::string, std::string>> read_metadata_field(const dom::key_value_pair& field) {
  std::string_view text;
  if (field.value.get(text) != simdjson::SUCCESS) {
    return fail(FailureKind::invalid_metadata,
                fmt::format("metadata values must be strings: the value of {} is none", quote(field.key)),
                "\"__metadata__\" is reserved for a map from strings to strings");
  }
  return std::pair<std::string, std::string>(field.key, text);
}

Outcome<void> read_metadata(dom::element value, SafetensorsHeader& out) {
  if (value.is_null()) return {};
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return fail(FailureKind::invalid_metadata, "\"__metadata__\" must be an object of strings, or null");
  }
  for (const dom::key_value_pair field : object) {
    auto pair = read_metadata_field(field);
    if (!pair) return tl::unexpected(std::move(pair.error()));
    out.metadata.push_back(*std::move(pair));
  }
  std::vector<std::string_view> keys;
  for (const auto& [key, text] : out.metadata) keys.push_back(key);
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  if (twice == keys.end()) return {};
  return fail(FailureKind::invalid_metadata, fmt::format("metadata key {} appears twice", quote(*twice)));
}

Outcome<Dtype> read_dtype(std::string_view tensor, dom::element value) {
  std::string_view name;
  if (value.get(name) != simdjson::SUCCESS) return invalid_field(tensor, "dtype", "a string");
  if (const auto dtype = dtype_from_name(name)) return *dtype;
  return fail(FailureKind::unknown_dtype,
              fmt::format("tensor {} has the unknown dtype {}", quote(tensor), quote(name)));
}

// Appends the numbers of an array; false when the value is no array of integers in 0 .. 2^64-1 or has too many.
bool read_numbers(dom::element value, std::size_t count_max, std::vector<std::uint64_t>& out) {
  dom::array array;
  if (value.get(array) != simdjson::SUCCESS) return false;
  for (const dom::element element : array) {
    std::uint64_t number = 0;
    if (out.size() == count_max || element.get(number) != simdjson::SUCCESS) return false;
    out.push_back(number);
  }
  return true;
}

struct Fields {
  std::optional<Dtype> dtype;
  std::optional<std::vector<std::uint64_t>> shape, offsets;
};

Outcome<void> read_field(std::string_view tensor, const dom::key_value_pair& field, Fields& fields) {
  const bool repeated = (field.key == "dtype" && fields.dtype) || (field.key == "shape" && fields.shape) ||
                        (field.key == "data_offsets" && fields.offsets);
  if (repeated) return invalid(fmt::format("tensor {}: \"{}\" appears twice", quote(tensor), field.key));
  if (field.key == "dtype") {
    auto dtype = read_dtype(tensor, field.value);
    if (!dtype) return tl::unexpected(std::move(dtype.error()));
    fields.dtype = *dtype;
  } else if (field.key == "shape") {
    if (!read_numbers(field.value, tensor_rank_max, fields.shape.emplace())) {
      return invalid_field(tensor, field.key, "an array of at most 64 whole numbers from 0");
    }
  } else if (field.key == "data_offsets") {
    if (!read_numbers(field.value, 2, fields.offsets.emplace()) || fields.offsets->size() != 2) {
      return invalid_field(tensor, field.key, "an array of two whole numbers from 0");
    }
  }
  return {};
}

Outcome<TensorEntry> read_tensor(const dom::key_value_pair& entry) {
  dom::object object;
  if (entry.value.get(object) != simdjson::SUCCESS) {
    return invalid(fmt::format("tensor {} is not described by an object", quote(entry.key)));
  }
  Fields fields;
  for (const dom::key_value_pair field : object) {
    if (auto read = read_field(entry.key, field, fields); !read)
      return tl::unexpected(std::move(read.error()));
  }
  const auto missing = [&](std::string_view field) {
    return invalid(fmt::format("tensor {}: \"{}\" is missing", quote(entry.key), field));
  };
  if (!fields.dtype) return missing("dtype");
  if (!fields.shape) return missing("shape");
  if (!fields.offsets) return missing("data_offsets");
  const std::uint64_t begin = (*fields.offsets)[0], end = (*fields.offsets)[1];
  if (end < begin) {
    return invalid(fmt::format("tensor {} ends at {}, before it begins at {}", quote(entry.key), end, begin));
  }
  return TensorEntry{.name = std::string(entry.key),
                     .dtype = *fields.dtype,
                     .shape = *std::move(fields.shape),
                     .extent = {.offset = begin, .length = end - begin},
                     .file = 0};
}

Outcome<void> read_entries(dom::object root, SafetensorsHeader& out) {
  bool metadata_seen = false;
  for (const dom::key_value_pair entry : root) {
    if (entry.key == "__metadata__") {
      if (metadata_seen) return fail(FailureKind::invalid_metadata, "\"__metadata__\" appears twice");
      metadata_seen = true;
      if (auto read = read_metadata(entry.value, out); !read) return read;
      continue;
    }
    auto tensor = read_tensor(entry);
    if (!tensor) return tl::unexpected(std::move(tensor.error()));
    out.tensors.push_back(*std::move(tensor));
  }
  return {};
}

// Names are compared after unescaping: `a` and `\u0061` are one.
Outcome<void> refuse_duplicates(const std::vector<TensorEntry>& tensors) {
  const std::vector<std::uint32_t> order = order_by_name(tensors);
  const auto same = [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name == tensors[b].name; };
  const auto twice = std::ranges::adjacent_find(order, same);
  if (twice == order.end()) return {};
  return fail(FailureKind::duplicate_tensor,
              fmt::format("tensor {} appears twice", quote(tensors[*twice].name)),
              "readers disagree on which of the two counts: write the file again");
}

}  // namespace

Outcome<SafetensorsHeader> read_safetensors_json(std::string_view json) {
  if (count_values(json) > header_values_max) {
    return invalid(fmt::format("header has more than {} values", header_values_max));
  }
  dom::parser parser;
  if (parser.allocate(json.size(), header_depth_max) != simdjson::SUCCESS) {
    return fail(FailureKind::exhausted, fmt::format("no memory to parse a header of {} bytes", json.size()));
  }
  dom::element root;
  const simdjson::error_code error = parser.parse(json.data(), json.size()).get(root);
  if (error == simdjson::MEMALLOC) {
    return fail(FailureKind::exhausted, fmt::format("no memory to parse a header of {} bytes", json.size()));
  }
  if (error == simdjson::UTF8_ERROR) return invalid("header is not valid UTF-8");
  if (error != simdjson::SUCCESS) {
    return invalid(fmt::format("header is not valid JSON: {}", simdjson::error_message(error)));
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) return invalid("header is not a JSON object");
  SafetensorsHeader header;
  if (auto read = read_entries(object, header); !read) return tl::unexpected(std::move(read.error()));
  if (auto unique = refuse_duplicates(header.tensors); !unique)
    return tl::unexpected(std::move(unique.error()));
  return header;
}

Outcome<CheckpointIndex> parse_safetensors(std::string_view json, std::uint64_t data_offset,
                                           std::uint64_t file_bytes) {
  auto header = read_safetensors_json(json);
  if (!header) return tl::unexpected(std::move(header.error()));
  if (auto placed = place_tensors(header->tensors, data_offset, file_bytes); !placed) {
    return tl::unexpected(std::move(placed.error()));
  }
  return CheckpointIndex("safetensors", file_bytes, data_offset, std::move(header->tensors),
                         std::move(header->metadata));
}

}  // namespace penstock
