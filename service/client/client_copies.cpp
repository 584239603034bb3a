// SPDX-License-Identifier: Apache-2.0
// Client: copies of tables on GPUs that can't share memory.
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <unistd.h>

#include "service/client/client.hpp"

namespace penstock {
namespace {

// Once a process and GPU. A library has no log of its own.
void say_that_nothing_is_shared(const GpuDescription& gpu) {
  static std::mutex& mutex = *std::make_unique<std::mutex>().release();
  static std::set<std::string>& said = *std::make_unique<std::set<std::string>>().release();
  const std::lock_guard lock(mutex);
  if (!said.insert(gpu.identity.id).second) return;
  const std::string line = fmt::format(
      "penstock: memory of {} can't be shared ({}): tables there are whole copies of this process's "
      "own, which the service does not count\n",
      gpu.identity.id,
      gpu.has_vmm ? "the service has no such device, its log says why" : gpu.why_no_vmm.c_str());
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

}  // namespace

Outcome<PlainGpu> Client::plain_gpu(const GpuName& name) {
  const std::lock_guard lock(opening_);
  return gpus_.find_plain(name);
}

Outcome<std::shared_ptr<TableCopy>> Client::copy(OpenTable& table, const PlainGpu& gpu) {
  const std::lock_guard lock(opening_);
  const GpuDescription& wanted = gpu.gpu.driver->description();
  std::erase_if(copies_, [](const MadeCopy& one) { return one.copy.expired(); });
  for (const MadeCopy& made : copies_) {
    const auto known = made.copy.lock();
    if (made.of == &table && known && known->gpu().identity.id == wanted.identity.id) return known;
  }
  const TableShape& shape = table.table->shape();
  auto made =
      TableCopy::create(gpu, {.bytes = shape.bytes, .page_bytes = shape.page_bytes, .pages = shape.pages});
  if (!made) return made;
  say_that_nothing_is_shared(wanted);
  copies_.push_back({&table, *made});
  return made;
}

Outcome<void> Client::fill(TableCopy& copy, OpenTable& table, PageSpan span, Nanoseconds deadline) {
  Table& from = *table.table;
  const PageSource source{.address = from.address(),
                          .pin = [&](PageSpan run) { return fault(table, run, deadline); },
                          .unpin = [&](PageSpan run) { static_cast<void>(from.paging().unpin(from, run)); }};
  return copy.fill(span, source, deadline);
}

}  // namespace penstock
