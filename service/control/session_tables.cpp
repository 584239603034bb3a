// SPDX-License-Identifier: Apache-2.0
// Session: opening and closing page tables, and the device socket that comes with the first one.
#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>

#include "dataplane/base/sha256.hpp"
#include "service/control/session.hpp"
#include "service/protocol/device_port.hpp"
#include "service/protocol/manifest.hpp"
#include "service/protocol/sealed_blob.hpp"
#include "service/protocol/socket_io.hpp"

namespace penstock {
namespace {

Failure out_of_descriptors() {
  return {FailureKind::fd_limit, "the service is out of descriptors or memory",
          "raise LimitNOFILE= of the service"};
}

// Descriptors that the session keeps are duplicated for the client.
bool append_copy(std::vector<UniqueFd>& fds, int fd) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy >= 0) fds.emplace_back(copy);
  return copy >= 0;
}

TableLayout from_wire(wire::Layout layout) { return static_cast<TableLayout>(layout); }
wire::Layout to_wire(TableLayout layout) { return static_cast<wire::Layout>(layout); }

}  // namespace

void Session::on(std::uint64_t request, wire::OpenTable&& open, UniqueFds&& fds) {
  const auto device = device_at(open.device);
  if (!device) return refuse(request, device.error());
  if (tables_.size() >= tables_max) {
    return refuse(request,
                  {FailureKind::exhausted, fmt::format("this client has {} tables open", tables_.size()),
                   "close those that it does not need"});
  }
  // First of all: private tables belong to a session that the device must know.
  if (auto connected = connect_device(**device); !connected) return refuse(request, connected.error());
  auto table = make_table(open, **device, fds);
  if (!table) return refuse(request, table.error());
  const auto known =
      std::ranges::find_if(tables_, [&](const auto& each) { return each.second.table == *table; });
  if (known != tables_.end()) {
    return refuse(request,
                  {FailureKind::busy, fmt::format("this client has table {} open already", raw(known->first)),
                   "use the table that is open, or close it first"});
  }
  if (auto attached = attach(request, open, *table); !attached) {
    if ((*table)->attached == 0 && (*table)->key.empty()) service_.tables.close(*table);
    refuse(request, attached.error());
  }
}

Outcome<std::shared_ptr<SharedTable>> Session::make_table(const wire::OpenTable& open, DeviceLink& device,
                                                          UniqueFds& fds) {
  if (open.kind == TableKind::anonymous) {
    const std::uint64_t capacity = device.description().limits.capacity_bytes;
    // Address space may be ten times the device, as clients reserve it; more is a mistake.
    if (open.bytes == 0 || open.bytes / 64 > capacity) {
      return fail(FailureKind::never_fits,
                  fmt::format("an anonymous table of {} bytes on a device of {}", open.bytes, capacity));
    }
    return service_.tables.anonymous_table(open.bytes, device, id_);
  }
  for (const std::uint64_t handle : open.checkpoints) {
    if (!checkpoints_.contains(handle)) {
      return fail(FailureKind::not_found, fmt::format("checkpoint {} is not open here", handle));
    }
  }
  if (open.kind == TableKind::assembled) return assemble(open, fds[0]);
  if (open.file != 0 && open.file != wire::all_files) {
    return fail(FailureKind::not_found, fmt::format("the checkpoint has no file {}", open.file));
  }
  return service_.tables.file_table(checkpoints_.at(open.checkpoints.at(0)), device, from_wire(open.layout));
}

Outcome<std::shared_ptr<SharedTable>> Session::assemble(const wire::OpenTable& open, int manifest) {
  DeviceLink& device = *service_.devices[open.device];
  std::vector<std::shared_ptr<Checkpoint>> checkpoints;
  for (const std::uint64_t handle : open.checkpoints) checkpoints.push_back(checkpoints_.at(handle));
  const auto mapped = open.manifest_bytes > 0 ? map_sealed_blob(manifest, open.manifest_bytes)
                                              : Result<Mapping>(Error{Errc::invalid, 0, "an empty manifest"});
  if (!mapped) {
    return fail(FailureKind::invalid_argument,
                fmt::format("the manifest can't be used: {}", mapped.error().operation),
                "it must be a memfd sealed against writing, shrinking and growing");
  }
  const std::span<const std::byte> bytes = mapped->bytes().first(open.manifest_bytes);
  auto parsed = parse_manifest(bytes);
  if (!parsed || parsed->files != checkpoints.size()) {
    return fail(
        FailureKind::invalid_argument,
        parsed ? fmt::format("the manifest names {} files, {} were given", parsed->files, checkpoints.size())
               : fmt::format("the manifest is not canonical: {}", parsed.error().operation));
  }
  std::vector<ManifestFile> files;
  for (const auto& checkpoint : checkpoints) {
    const FileIdentity& identity = checkpoint->identity();
    files.push_back({identity.device, identity.inode, identity.bytes, identity.mtime_ns, identity.ctime_ns});
  }
  const DeviceLink::Description& description = device.description();
  const Sha256Digest digest = manifest_key(bytes, files,
                                           {.id = description.id,
                                            .frame_bytes = description.limits.frame_bytes,
                                            .tensor_alignment = description.limits.tensor_alignment});
  const std::string key = to_hex(digest);
  return service_.tables.assembled_table(key, std::move(parsed->pieces), std::move(checkpoints), device);
}

Outcome<void> Session::connect_device(DeviceLink& device) {
  if (connected_.contains(&device)) return {};
  auto pair = make_socket_pair();
  if (!pair) return tl::unexpected<Failure>(out_of_descriptors());
  device.send(mail::OpenSession{.session = id_,
                                .port = std::make_unique<DevicePort>(std::move(pair->first)),
                                .private_bytes_max = service_.config.per_user_bytes});
  connected_.emplace(&device, std::move(pair->second));
  return {};
}

Outcome<void> Session::attach(std::uint64_t request, const wire::OpenTable& open,
                              std::shared_ptr<SharedTable> table) {
  auto pins = PinWords::create(std::max<std::uint32_t>(table->pages, 1));
  if (!pins) return tl::unexpected<Failure>(out_of_descriptors());
  OpenTable mine{.table = table,
                 .overlay = nullptr,
                 .pins = *pins,
                 .checkpoint = open.kind == TableKind::file ? open.checkpoints.at(0) : 0};
  std::vector<UniqueFd> fds;
  bool copied = append_copy(fds, table->words->fd()) && append_copy(fds, mine.pins->fd());
  if (open.overlay && open.kind != TableKind::anonymous) {
    auto overlay = service_.tables.overlay_table(*table, id_);
    if (!overlay) return tl::unexpected(overlay.error());
    mine.overlay = std::move(*overlay);
    copied = copied && append_copy(fds, mine.overlay->words->fd());
  }
  if (!table->tensor_offsets.empty()) {
    auto offsets = make_sealed_blob("penstock-offsets", std::as_bytes(std::span(table->tensor_offsets)));
    copied = copied && offsets;
    if (copied) fds.push_back(std::move(*offsets));
  }
  if (!copied) {
    if (mine.overlay) service_.tables.close(mine.overlay);
    return tl::unexpected<Failure>(out_of_descriptors());
  }
  UniqueFd& socket = connected_.at(table->device);
  const bool first = static_cast<bool>(socket);
  if (first) fds.push_back(std::move(socket));
  const TableNumber number{++last_table_};
  service_.tables.attach(*table, id_, number, open.mode, mine.pins);
  const TableNumber overlay_number{mine.overlay ? ++last_table_ : 0};
  if (mine.overlay) service_.tables.attach(*mine.overlay, id_, overlay_number, open.mode, mine.pins);
  answer(request,
         wire::TableReply{.table = raw(number),
                          .overlay_table = raw(overlay_number),
                          .pages = table->pages,
                          .layout = to_wire(table->layout),
                          .page_bytes = table->device->description().limits.frame_bytes,
                          .table_bytes = table->bytes,
                          .shift_bytes = 0,
                          .tensor_offsets = table->tensor_offsets.size(),
                          .device_socket = first},
         std::move(fds));
  tables_.emplace(number, std::move(mine));
  return {};
}

void Session::on(std::uint64_t request, wire::CloseTable&& close, UniqueFds&&) {
  const auto found = tables_.find(TableNumber{close.table});
  if (found == tables_.end()) {
    return refuse(request,
                  {FailureKind::not_found, fmt::format("table {} is not open here", close.table), ""});
  }
  leave(found->second);
  tables_.erase(found);
  answer(request, wire::Done{});
  service_.drop_idle();
}

}  // namespace penstock
