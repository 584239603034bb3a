// SPDX-License-Identifier: Apache-2.0
// penstock inspect FILE: what a checkpoint file holds, by the parser that the service uses.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "dataplane/base/quote.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/read_index.hpp"
#include "service/cli/commands.hpp"

namespace penstock {
namespace {

std::vector<std::string> warnings_about(const std::string& path, const CheckpointIndex& index) {
  std::vector<std::string> warnings;
  if (!path.ends_with("." + index.format())) {
    warnings.push_back(
        fmt::format("the content is {}, the name does not end in .{}", index.format(), index.format()));
  }
  const auto is_misaligned = [](const TensorEntry& tensor) {
    return tensor.extent.length > 0 && tensor.extent.offset % dtype_alignment(tensor.dtype) != 0;
  };
  const auto misaligned = std::ranges::count_if(index.tensors(), is_misaligned);
  if (misaligned > 0) {
    const TensorEntry& first = *std::ranges::find_if(index.tensors(), is_misaligned);
    warnings.push_back(
        fmt::format("tensors that do not start on a multiple of their element's size: {}, the first is {}",
                    misaligned, quote(first.name)));
  }
  return warnings;
}

Json as_json(const CheckpointIndex& index, const std::vector<std::string>& warnings) {
  Json tensors = Json::array();
  for (const TensorEntry& tensor : index.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", dtype_name(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"offset", tensor.extent.offset},
                       {"bytes", tensor.extent.length}});
  }
  Json metadata = Json::object();
  for (const auto& [key, value] : index.metadata()) metadata[key] = value;
  return {{"format", index.format()},
          {"bytes", index.file_bytes()},
          {"tensor_bytes", index.tensor_bytes()},
          {"tensors", std::move(tensors)},
          {"metadata", std::move(metadata)},
          {"warnings", warnings}};
}

std::string as_text(const CheckpointIndex& index, const std::vector<std::string>& warnings, bool color) {
  const std::string_view strong = color ? "\x1b[1m" : "", plain = color ? "\x1b[0m" : "";
  std::string text = fmt::format("{}{}{}, {} ({} bytes), {} tensors with {}\n", strong, index.format(), plain,
                                 format_bytes(index.file_bytes()), index.file_bytes(), index.tensors().size(),
                                 format_bytes(index.tensor_bytes()));
  for (const std::string& warning : warnings) text += fmt::format("warning: {}\n", warning);
  if (!index.metadata().empty()) text += fmt::format("\n{}metadata{}\n", strong, plain);
  for (const auto& [key, value] : index.metadata()) {
    text += fmt::format("  {}: {}\n", printable(key), quote(value, 200));
  }
  if (!index.tensors().empty())
    text += fmt::format("\n{}{:>14} {:>12} dtype    name and shape{}\n", strong, "offset", "bytes", plain);
  for (const TensorEntry& tensor : index.tensors()) {
    text += fmt::format("{:>14} {:>12} {:<8} {} [{}]\n", tensor.extent.offset, tensor.extent.length,
                        dtype_name(tensor.dtype), printable(tensor.name), fmt::join(tensor.shape, ", "));
  }
  return text;
}

int run_inspect(const Context& context, const std::string& path) {
  const auto refuse = [&](Failure failure) {
    const bool names_it = failure.message.find(path) != std::string::npos;
    if (!names_it) failure.message = printable(path) + ": " + failure.message;
    return context.report(failure);
  };
  const auto file = CheckpointFile::open(path);
  if (!file) return refuse(file.error());
  const auto index = read_index_of(**file);
  if (!index) return refuse(index.error());
  const std::vector<std::string> warnings = warnings_about(path, *index);
  return context.finish(context.json ? context.print_json(as_json(*index, warnings))
                                     : context.print_text(as_text(*index, warnings, context.has_color())));
}

}  // namespace

RunCommand define_inspect(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  app.add_option("FILE", *path, "a checkpoint file")->required();
  return [path](const Context& context) { return run_inspect(context, *path); };
}

}  // namespace penstock
