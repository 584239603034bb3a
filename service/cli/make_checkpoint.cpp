// SPDX-License-Identifier: Apache-2.0
// penstock make-checkpoint SHAPE FILE: a file with the tensors of a known model and made-up content, and the SHA-256
// of each tensor beside it.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "dataplane/base/units.hpp"
#include "service/cli/checkpoint_writer.hpp"
#include "service/cli/commands.hpp"

namespace penstock {
namespace {

struct Wish {
  std::string shape;
  std::string path;
  std::uint64_t seed = 0;
  std::string bytes;
  bool force = false;
};

struct Made {
  CheckpointPlan plan;
  WrittenCheckpoint written;
};

Outcome<void> write_lines(NewFile& file, const std::string& lines) {
  return file.write(std::as_bytes(std::span(lines)));
}

Outcome<Made> make(const Wish& wish, const Shape& shape, std::optional<std::uint64_t> bytes) {
  auto plan = plan_checkpoint(shape, wish.seed, bytes);
  if (!plan) return tl::unexpected(std::move(plan.error()));
  // From here on a signal must find somebody who removes the files.
  const Interruption interruption;
  const Existing existing = wish.force ? Existing::replaced : Existing::kept;
  auto file = NewFile::create(wish.path, existing);
  if (!file) return tl::unexpected(std::move(file.error()));
  auto sums = NewFile::create(wish.path + ".sha256", existing);
  if (!sums) return tl::unexpected(std::move(sums.error()));
  auto written = write_checkpoint(*plan, wish.seed, *file, interruption);
  if (!written) return tl::unexpected(std::move(written.error()));
  // The checksums first: a checkpoint is never there without them.
  if (auto done = write_lines(*sums, written->digest_lines); !done)
    return tl::unexpected(std::move(done.error()));
  if (auto done = sums->publish(); !done) return tl::unexpected(std::move(done.error()));
  if (auto done = file->publish(); !done) {
    sums->withdraw();
    return tl::unexpected(std::move(done.error()));
  }
  return Made{.plan = *std::move(plan), .written = *std::move(written)};
}

int run_make_checkpoint(const Context& context, const Wish& wish) {
  std::optional<std::uint64_t> bytes;
  if (!wish.bytes.empty()) {
    const auto parsed = parse_bytes(wish.bytes);
    if (!parsed || *parsed == 0) {
      (void)context.report(
          parsed ? Failure{FailureKind::invalid_argument, "--bytes: must be above 0", ""}
                 : Failure{FailureKind::invalid_argument, "--bytes: " + parsed.error().message, ""});
      return exit_usage;
    }
    bytes = *parsed;
  }
  const auto made = make(wish, *find_shape(wish.shape), bytes);
  if (!made) return context.report(made.error());
  const std::string digest = to_hex(made->written.file_digest);
  if (context.json) {
    return context.finish(context.print_json(Json{{"file", wish.path},
                                                  {"bytes", made->plan.file_bytes},
                                                  {"tensors", made->plan.tensors.size()},
                                                  {"sha256_file", digest},
                                                  {"shape", wish.shape},
                                                  {"seed", wish.seed}}));
  }
  return context.finish(context.print_text(
      fmt::format("{}: {} ({} bytes), {} tensors\nsha256 of the file {}\nsha256 of each tensor in {}\n",
                  printable(wish.path), format_bytes(made->plan.file_bytes), made->plan.file_bytes,
                  made->plan.tensors.size(), digest, printable(wish.path + ".sha256"))));
}

}  // namespace

RunCommand define_make_checkpoint(CLI::App& app) {
  auto wish = std::make_shared<Wish>();
  std::vector<std::string> names;
  std::string footer = "Shapes:\n";
  for (const Shape& shape : all_shapes()) {
    names.emplace_back(shape.name);
    footer += fmt::format("  {:<14} {}\n", shape.name, shape.summary);
  }
  footer +=
      "With --bytes the tensors are taken in the order of the file (large elements first, then by name) "
      "until their\n"
      "data has that many bytes, the last one cut to as few rows as suffice; a smaller shape is repeated. "
      "Equal\n"
      "arguments give equal files. FILE.sha256 gets one line \"<sha256>  <name>\" for each tensor.";
  app.add_option("SHAPE", wish->shape, "which model's shapes")->required()->check(CLI::IsMember(names));
  app.add_option("FILE", wish->path, "the file to write")->required();
  app.add_option("--seed", wish->seed, "decides the content")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""))
      ->capture_default_str();
  app.add_option("--bytes", wish->bytes, "how much data, for example 2GiB; else the whole model")
      ->type_name("B");
  app.add_flag("--force", wish->force, "replace FILE and FILE.sha256");
  app.footer(footer);
  return [wish](const Context& context) { return run_make_checkpoint(context, *wish); };
}

}  // namespace penstock
