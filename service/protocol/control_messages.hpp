// SPDX-License-Identifier: Apache-2.0
// The control socket's messages as values; PROTOCOL.md, section 4, says what they mean. Descriptors travel
// beside them, in the order that PROTOCOL.md gives; descriptors_of() in control_codec.hpp counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/core/pager_events.hpp"
#include "service/protocol/copy_wire.h"
#include "service/protocol/file_wire.h"
#include "service/protocol/wire.h"

namespace penstock::wire {

// ---- from the client ----
struct Hello {
  std::uint32_t protocol =
      PSTW_PROTOCOL;  // Any other number was read from a Hello whose further fields are unknown.
  std::string version;
  std::string name;
  bool events = false;
};
struct OpenFile {
  std::string name;
  bool direct = false;  // A second descriptor came with it.
};
struct OpenCheckpoint {
  std::string name;
  std::vector<OpenFile> files;
  bool more = false;
};
struct CloseCheckpoint {
  std::uint64_t checkpoint = 0;
};
enum class Layout : std::uint8_t { automatic, identity, shifted, scattered };
inline constexpr std::uint32_t all_files = PSTW_ALL_FILES;
struct OpenTable {
  std::uint32_t device = 0;
  TableKind kind = TableKind::file;  // Never overlay.
  Layout layout = Layout::automatic;
  RevokeMode mode = RevokeMode::agent;
  bool overlay = false;
  std::uint32_t file = 0;
  std::vector<std::uint64_t> checkpoints;
  std::uint64_t bytes = 0;           // Anonymous alone.
  std::uint64_t manifest_bytes = 0;  // Assembled alone.
};
struct CloseTable {
  std::uint32_t table = 0;
};
struct Admit {
  std::uint32_t device = 0;
  std::uint64_t weights_bytes = 0;
  std::uint64_t work_bytes = 0;
  std::uint64_t minimum_work_bytes = 0;  // Not above work_bytes.
  std::uint64_t timeout_ns = 0;
};
struct ReleaseGrant {
  std::uint64_t grant = 0;
};
struct CreateBuffer {
  std::uint64_t bytes = 0;
};
struct TruncateBuffer {
  std::uint64_t buffer = 0;
  std::uint64_t bytes = 0;
};
struct FreeBuffer {
  std::uint64_t buffer = 0;
};
struct AddFile {
  std::string name;
  bool direct = false;  // A second descriptor came with it.
};
struct DropFile {
  std::uint64_t file = 0;
};
struct ReadFile {
  std::uint64_t file = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t buffer = 0;
  std::uint64_t buffer_offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t timeout_ns = 0;
};
struct Free {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
  std::uint64_t timeout_ns = 0;
};
enum class HoldingKind : std::uint8_t { weights, work, carry, results, state, other };
inline constexpr std::size_t holding_kinds = 6;
enum class HoldingPlace : std::uint8_t { device, locked_host, anonymous, page_cache, disk };
inline constexpr std::size_t holding_places = 5;
struct Holding {
  HoldingKind kind = HoldingKind::weights;
  HoldingPlace place = HoldingPlace::device;
  std::optional<std::uint32_t> device;  // Where the place is a device's, and only there.
  std::uint64_t bytes = 0;

  // The order of a report.
  auto key() const { return std::tuple(kind, place, device); }
};
struct Report {
  std::vector<Holding> holdings;  // Ascending by key, each once.
};
// Memory of a GPU that is none of the devices; see PSTW_BOOK_COPY.
struct BookCopy {
  std::string gpu;
  std::uint64_t copy = 0;
  std::uint64_t bytes = 0;
  bool exists = false;
};
enum class QueryKind : std::uint8_t { status, explain, load, evict, doctor, scrub };
struct Query {
  QueryKind kind = QueryKind::status;
  std::string json;
};
struct CancelRequest {
  std::uint64_t cancelled = 0;
};
using ClientMessage = std::variant<Hello, OpenCheckpoint, CloseCheckpoint, OpenTable, CloseTable, Admit,
                                   ReleaseGrant, CreateBuffer, TruncateBuffer, FreeBuffer, Free, Query,
                                   CancelRequest, Report, BookCopy, AddFile, DropFile, ReadFile>;

// ---- from the service ----
enum class DeviceKind : std::uint8_t { host, cuda, hip };
struct Device {
  std::string id;
  DeviceKind kind = DeviceKind::host;
  std::uint64_t frame_bytes = 0;
  std::uint64_t tensor_alignment = 1;
  std::uint64_t capacity_bytes = 0;
};
struct HelloReply {
  std::uint32_t protocol = PSTW_PROTOCOL;  // Any other number: further fields are unknown.
  std::uint32_t session = 0;
  std::string version;
  std::uint64_t revoke_deadline_ns = 0;
  std::uint64_t cooperative_deadline_ns = 0;
  std::vector<Device> devices;
};
struct Refused {
  std::uint32_t service_protocol = PSTW_PROTOCOL;
  std::uint32_t client_protocol = 0;
  std::string text;
};
struct Done {};
struct CheckpointReply {
  std::uint64_t checkpoint = 0;
  std::string id;  // 12 hex digits
  std::uint32_t files = 0;
  std::uint32_t tensors = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t tensor_bytes = 0;
  std::uint64_t index_bytes = 0;
};
struct TableReply {
  std::uint32_t table = 0;
  std::uint32_t overlay_table = 0;  // 0: no private pages, no words for them.
  std::uint32_t pages = 0;
  Layout layout = Layout::identity;
  std::uint64_t page_bytes = 0;
  std::uint64_t table_bytes = 0;
  std::uint64_t shift_bytes = 0;
  std::uint64_t tensor_offsets = 0;  // 0: no descriptor of offsets.
  bool device_socket = false;        // The last descriptor is one.
};
struct AdmitReply {
  std::uint64_t grant = 0;
  std::uint64_t work_bytes = 0;
  std::uint64_t waited_ns = 0;
};
struct BufferReply {
  std::uint64_t buffer = 0;
  std::uint64_t bytes = 0;
};
struct FileReply {
  std::uint64_t file = 0;
  std::uint64_t bytes = 0;
};
struct FreeReply {
  std::uint64_t freed_bytes = 0;
};
struct QueryReply {
  std::string json;              // Empty: in the descriptor.
  std::uint64_t json_bytes = 0;  // Of the descriptor; when encoding an inline reply, json.size() is taken.
};
struct Closing {};
enum class PressureLevel : std::uint8_t { calm, some, full };
struct Pressure {
  PressureLevel level = PressureLevel::calm;
  std::optional<std::uint32_t> device;  // nullopt: host memory as a whole.
  std::uint64_t excess_bytes = 0;
};
struct TableGone {
  std::uint32_t table = 0;
  FailureKind reason = FailureKind::internal;
};
struct Progress {
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
};
using ServiceMessage =
    std::variant<HelloReply, Refused, Done, Failure, CheckpointReply, TableReply, AdmitReply, BufferReply,
                 FreeReply, QueryReply, Closing, Pressure, TableGone, Progress, FileReply>;

}  // namespace penstock::wire
