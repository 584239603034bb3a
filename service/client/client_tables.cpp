// SPDX-License-Identifier: Apache-2.0
// Client: checkpoints and tables, opened and opened again.
#include <algorithm>
#include <bit>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "dataplane/base/memfd.hpp"
#include "dataplane/base/units.hpp"
#include "service/client/client.hpp"
#include "service/client/host_mapper.hpp"
#include "service/client/parked_mappers.hpp"
#include "service/client/status.hpp"
#include "service/protocol/sealed_blob.hpp"

namespace penstock {
namespace {

// How long the service may be silent about one request that has no time of its own.
constexpr Nanoseconds usual_patience = std::chrono::seconds(120);

Failure broken_rule(std::string text) { return {FailureKind::protocol_violation, std::move(text), ""}; }

Nanoseconds until(Nanoseconds deadline) {
  return deadline == never ? never : std::max(deadline - monotonic_now(), Nanoseconds(0));
}

Outcome<Reply> open_checkpoint(Client& client, std::uint64_t epoch, const CheckpointFile& file,
                               Nanoseconds deadline) {
  wire::OpenCheckpoint message{.name = file.name, .files = {}, .more = false};
  message.files.push_back({.name = file.name, .direct = static_cast<bool>(file.direct)});
  const int fds[] = {file.cached.get(), file.direct.get()};
  return client.ask_on<wire::CheckpointReply>(epoch, message, until(deadline),
                                              std::span(fds).first(file.direct ? 2 : 1));
}

// Words shared with the service: a memfd that can't shrink, so that reading it can't fault.
Outcome<Mapping> map_words(int fd, std::uint64_t words, Access access) {
  const std::uint64_t bytes = std::max<std::uint64_t>(words, 1) * sizeof(std::uint64_t);
  const auto size = size_of(fd);
  const auto seals = seals_of(fd);
  if (!size || !seals || *size < bytes || (*seals & F_SEAL_SHRINK) == 0) {
    return tl::unexpected(broken_rule("the service sent words that may shrink"));
  }
  auto mapping = map_for_this_process(fd, bytes, access);
  if (!mapping) return tl::unexpected(to_failure(mapping.error(), "shared words can't be mapped"));
  return std::move(*mapping);
}

Outcome<TableShape> shape_of(const wire::TableReply& reply, const TableRecipe& recipe) {
  const std::uint64_t page_bytes = reply.page_bytes;
  const bool sane = std::has_single_bit(page_bytes) && page_bytes >= small_page_bytes && page_bytes <= tib &&
                    reply.table_bytes <= page_bytes * reply.pages;
  if (!sane) {
    return tl::unexpected(broken_rule(
        fmt::format("a table of {} bytes in {} pages of {}", reply.table_bytes, reply.pages, page_bytes)));
  }
  return TableShape{.kind = recipe.message.kind,
                    .mode = recipe.message.mode,
                    .copy_on_write = recipe.copy_on_write,
                    .layout = reply.layout,
                    .pages = reply.pages,
                    .page_bytes = page_bytes,
                    .bytes = reply.table_bytes,
                    .shift_bytes = reply.shift_bytes,
                    .tensor_offsets = reply.tensor_offsets};
}

std::optional<GpuVendor> vendor_of(wire::DeviceKind kind) {
  switch (kind) {
    case wire::DeviceKind::host: break;
    case wire::DeviceKind::cuda: return GpuVendor::cuda;
    case wire::DeviceKind::hip: return GpuVendor::hip;
  }
  return std::nullopt;
}

// The descriptors of a reply, in the order of the protocol.
struct Parts {
  TableAttachment attachment;
  std::vector<std::uint64_t> tensor_offsets;
  UniqueFd device_socket;
};

Outcome<Parts> parts_of(Reply& reply, std::uint64_t epoch) {
  const auto& told = std::get<wire::TableReply>(reply.message);
  Parts parts;
  parts.attachment.epoch = epoch;
  parts.attachment.number = told.table;
  parts.attachment.overlay_number = told.overlay_table;
  std::size_t next = 0;
  const auto map = [&](Mapping& into, std::uint64_t words, Access access) -> Outcome<void> {
    auto mapping = map_words(reply.fds[next++], words, access);
    if (!mapping) return tl::unexpected(std::move(mapping.error()));
    into = std::move(*mapping);
    return {};
  };
  auto done = map(parts.attachment.page_words, told.pages, Access::read);
  if (done) done = map(parts.attachment.region, told.pages, Access::read_write);
  if (done && told.overlay_table != 0) done = map(parts.attachment.overlay_words, told.pages, Access::read);
  if (done && told.tensor_offsets != 0) {
    Mapping offsets;
    done = map(offsets, told.tensor_offsets, Access::read);
    if (done) {
      const auto* const first = reinterpret_cast<const std::uint64_t*>(offsets.data());
      parts.tensor_offsets.assign(first, first + told.tensor_offsets);
    }
  }
  if (!done) return tl::unexpected(std::move(done.error()));
  if (told.device_socket) parts.device_socket = reply.fds.take(next);
  return parts;
}

}  // namespace

Outcome<std::shared_ptr<Checkpoint>> Client::open(CheckpointFile file) {
  const Nanoseconds deadline = monotonic_now() + patience(usual_patience);
  const auto epoch = connected(deadline);
  if (!epoch) return tl::unexpected(epoch.error());
  auto reply = open_checkpoint(*this, *epoch, file, deadline);
  if (!reply) return tl::unexpected(std::move(reply.error()));
  auto checkpoint = Checkpoint::make(std::move(file), std::move(*reply));
  if (!checkpoint) return tl::unexpected(std::move(checkpoint.error()));
  (*checkpoint)->epoch = *epoch;
  return std::shared_ptr(std::move(*checkpoint));
}

void Client::close(std::shared_ptr<Checkpoint> checkpoint) {
  const std::lock_guard lock(opening_);
  if (checkpoint.use_count() > 1) return;  // A table of it is open, or another handle.
  control_.post(checkpoint->epoch, wire::CloseCheckpoint{checkpoint->handle});
}

std::optional<std::uint64_t> Client::handle_of(Checkpoint& checkpoint) {
  const std::lock_guard lock(opening_);
  const auto epoch = present_connection();
  const Nanoseconds deadline = monotonic_now() + patience(usual_patience);
  if (!epoch || !give_handle(checkpoint, *epoch, deadline)) return std::nullopt;
  return checkpoint.handle;
}

Outcome<void> Client::give_handle(Checkpoint& checkpoint, std::uint64_t epoch, Nanoseconds deadline) {
  if (checkpoint.epoch == epoch) return {};
  auto reply = open_checkpoint(*this, epoch, checkpoint.file(), deadline);
  if (!reply) return tl::unexpected(std::move(reply.error()));
  const auto& told = std::get<wire::CheckpointReply>(reply->message);
  if (told.id != checkpoint.id() || told.file_bytes != checkpoint.file_bytes()) {
    return fail(FailureKind::changed_while_read,
                fmt::format("{} is not the file that it was before the service came back", checkpoint.name()),
                "open it again");
  }
  checkpoint.epoch = epoch;
  checkpoint.handle = told.checkpoint;
  return {};
}

Outcome<OpenTable*> Client::open(TableRecipe recipe) {
  end_parked();
  const std::lock_guard lock(opening_);
  // Who only copies from it takes it as it is.
  const bool any_options = std::exchange(recipe.copied_to, std::nullopt).has_value();
  const auto known = find(recipe);
  if (!known) return tl::unexpected(known.error());
  if (OpenTable* const open = *known) {
    if (!any_options && (open->recipe.message.mode != recipe.message.mode ||
                         open->recipe.copy_on_write != recipe.copy_on_write)) {
      return fail(FailureKind::busy, "this process has the table open already, with other options",
                  "one content is one table in a process: open it with the same options");
    }
    ++open->users;
    return open;
  }
  auto table = std::make_unique<OpenTable>();
  table->recipe = std::move(recipe);
  auto attached = attach(*table, monotonic_now() + patience(usual_patience));
  if (!attached) return tl::unexpected(std::move(attached.error()));
  tables_.push_back(std::move(table));
  return tables_.back().get();
}

Outcome<Reply> Client::request_table(TableRecipe& recipe, std::uint64_t epoch, Nanoseconds deadline) {
  const auto found = device(recipe.device.c_str());
  if (!found) return tl::unexpected(found.error());
  recipe.message.device = found->index;
  recipe.message.checkpoints.clear();
  for (const auto& checkpoint : recipe.checkpoints) {
    if (auto given = give_handle(*checkpoint, epoch, deadline); !given)
      return tl::unexpected(std::move(given.error()));
    recipe.message.checkpoints.push_back(checkpoint->handle);
  }
  if (recipe.manifest.empty()) return ask_on<wire::TableReply>(epoch, recipe.message, until(deadline));
  const auto manifest = make_sealed_blob("penstock-manifest", recipe.manifest);
  if (!manifest) return tl::unexpected(to_failure(manifest.error(), "the manifest can't be sent"));
  const int fds[] = {manifest->get()};
  return ask_on<wire::TableReply>(epoch, recipe.message, until(deadline), fds);
}

Outcome<std::uint64_t> Client::attach(OpenTable& open, Nanoseconds deadline) {
  const auto epoch = connected(deadline);
  if (!epoch) return tl::unexpected(epoch.error());
  if (open.table && open.table->paging().attached(*open.table, *epoch)) return *epoch;
  const auto wanted = device(open.recipe.device.c_str());
  if (wanted && !open.table) {
    // Before the service makes anything of it.
    const auto vendor = vendor_of(wanted->facts.kind);
    const auto gpu = vendor ? gpus_.find(*vendor, wanted->facts.id) : ProcessGpu{};
    if (!gpu) return tl::unexpected(gpu.error());
  }
  // A fault's own time may be long, or none at all.
  auto reply =
      request_table(open.recipe, *epoch, std::min(deadline, monotonic_now() + patience(usual_patience)));
  if (!reply) return tl::unexpected(std::move(reply.error()));
  auto shape = shape_of(std::get<wire::TableReply>(reply->message), open.recipe);
  auto parts = shape ? parts_of(*reply, *epoch) : tl::unexpected(shape.error());
  const auto found = device(open.recipe.device.c_str());
  if (!parts || !found) {
    lose(*epoch,
         parts ? found.error() : parts.error());  // What was opened can't be used or named: start anew.
    return tl::unexpected(parts ? found.error() : parts.error());
  }
  if (parts->device_socket) {
    auto shared = std::make_shared<const ForkAwareFd>(std::move(parts->device_socket));
    const auto watch = SocketWatch::add(agent_->epoll(), shared->get(), key_of(*found->paging));
    if (!watch) {
      auto failure = to_failure(watch.error(), "the device socket can't be watched");
      lose(*epoch, failure);  // There is only one a connection.
      return tl::unexpected(std::move(failure));
    }
    found->paging->open(*epoch, std::move(shared), *watch);
  }
  if (open.table && open.table->shape() != *shape) {
    control_.post(*epoch, wire::CloseTable{parts->attachment.number});
    return fail(FailureKind::changed_while_read, "the table is not what it was before the service came back",
                "close it and open it again");
  }
  if (!open.table) {
    auto mapper = make_mapper(found->facts, *shape);
    if (!mapper) {
      control_.post(*epoch, wire::CloseTable{parts->attachment.number});
      return tl::unexpected(std::move(mapper.error()));
    }
    open.table = std::make_unique<Table>(*shape, *found->paging, birth_, std::move(*mapper));
  }
  open.tensor_offsets = std::move(parts->tensor_offsets);
  found->paging->attach(*open.table, std::move(parts->attachment));
  return *epoch;
}

Outcome<std::unique_ptr<PageMapper>> Client::make_mapper(const wire::Device& device,
                                                         const TableShape& shape) {
  Result<std::unique_ptr<PageMapper>> mapper;
  if (const auto vendor = vendor_of(device.kind)) {
    auto gpu = gpus_.find(*vendor, device.id);
    if (!gpu) return tl::unexpected(std::move(gpu.error()));
    mapper = GpuMapper::create(*gpu, shape.pages, shape.page_bytes);
  } else {
    mapper = HostMapper::create(shape.pages, shape.page_bytes, shape.copy_on_write);
  }
  if (!mapper) return tl::unexpected(to_failure(mapper.error(), "address space for the table"));
  return std::move(*mapper);
}

bool Client::is_attached(const OpenTable& table) {
  const auto epoch = present_connection();
  return epoch && table.table->paging().attached(*table.table, *epoch);
}

template <class Try>
Outcome<void> Client::on_attached(OpenTable& table, Nanoseconds deadline, Try attempt) {
  for (int tries = 0;; ++tries) {
    if (!is_attached(table)) {
      const std::lock_guard lock(opening_);
      if (auto attached = attach(table, deadline); !attached)
        return tl::unexpected(std::move(attached.error()));
    }
    Paging::Answer answer = attempt(table.table->paging());
    if (!answer.outcome) find_losses();
    if (answer.outcome || answer.sent || tries > 0) return std::move(answer.outcome);
  }
}

Outcome<void> Client::fault(OpenTable& table, PageSpan span, Nanoseconds deadline) {
  run_closing();
  return on_attached(table, deadline,
                     [&](Paging& paging) { return paging.fault(*table.table, span, deadline); });
}

Outcome<void> Client::prefetch(OpenTable& table, PageSpan span, bool wait, Nanoseconds deadline) {
  return on_attached(table, deadline,
                     [&](Paging& paging) { return paging.prefetch(*table.table, span, wait, deadline); });
}

Outcome<void> Client::make_private(OpenTable& table, PageSpan span, Nanoseconds deadline) {
  return on_attached(table, deadline,
                     [&](Paging& paging) { return paging.make_private(*table.table, span, deadline); });
}

std::uint64_t Client::free(OpenTable& table, std::uint64_t bytes, Nanoseconds deadline) {
  return table.table->paging().give_back(bytes, deadline, table.table.get());
}

Outcome<std::uint64_t> Client::free(const char* id, std::uint64_t bytes, Nanoseconds deadline) {
  const auto found = device(id);
  if (!found) return tl::unexpected(found.error());
  std::uint64_t freed = found->paging->give_back(bytes, deadline);
  if (freed >= bytes) return freed;
  const Nanoseconds left = until(deadline);
  const auto timeout = deadline == never ? UINT64_MAX : static_cast<std::uint64_t>(left.count());
  const wire::Free message{.device = found->index, .bytes = bytes - freed, .timeout_ns = timeout};
  const auto reply = ask<wire::FreeReply>(message, patience_beyond(left));
  if (reply) return freed + std::get<wire::FreeReply>(reply->message).freed_bytes;
  if (freed > 0) return freed;
  return tl::unexpected(reply.error());
}

}  // namespace penstock
