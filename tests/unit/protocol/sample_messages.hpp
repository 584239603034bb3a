// SPDX-License-Identifier: Apache-2.0
// One or more messages of each type, with every field set.
#pragma once

#include <vector>

#include "dataplane/pager/peer_port.hpp"
#include "service/protocol/control_messages.hpp"

namespace penstock::test {

inline std::vector<wire::ClientMessage> sample_client_messages() {
  wire::OpenTable file_table;
  file_table.device = 3;
  file_table.layout = wire::Layout::scattered;
  file_table.mode = RevokeMode::cooperative;
  file_table.overlay = true;
  file_table.file = wire::all_files;
  file_table.checkpoints = {7};
  wire::OpenTable assembled;
  assembled.kind = TableKind::assembled;
  assembled.checkpoints = {7, 8, 9};
  assembled.manifest_bytes = 72;
  wire::OpenTable anonymous;
  anonymous.kind = TableKind::anonymous;
  anonymous.bytes = 1 << 30;
  return {
      wire::Hello{PSTW_PROTOCOL, "0.1.0", "ComfyUI à 2", true},
      wire::OpenCheckpoint{"flux", {{"a-00001.safetensors", true}, {"a-00002.safetensors", false}}, true},
      wire::CloseCheckpoint{0x123456789abcdef0},
      file_table,
      assembled,
      anonymous,
      wire::CloseTable{12},
      wire::Admit{1, 100, 50, 25, 1'000'000'000},
      wire::ReleaseGrant{99},
      wire::CreateBuffer{1 << 20},
      wire::TruncateBuffer{5, 4096},
      wire::FreeBuffer{5},
      wire::Free{2, 1 << 30, 5},
      wire::AddFile{"a.safetensors", false},
      wire::AddFile{"", true},
      wire::DropFile{3},
      wire::ReadFile{3, 4095, 5, 17, 1 << 20, 1'000'000'000},
      wire::Query{wire::QueryKind::explain, R"({"id":"é"})"},
      wire::CancelRequest{41},
      wire::BookCopy{"cuda-0123abcd", 7, 1ull << 35, true},
      wire::Report{},
      wire::Report{{{wire::HoldingKind::weights, wire::HoldingPlace::device, 3, 1ull << 34},
                    {wire::HoldingKind::weights, wire::HoldingPlace::device, 4, 0},
                    {wire::HoldingKind::weights, wire::HoldingPlace::disk, std::nullopt, 7},
                    {wire::HoldingKind::other, wire::HoldingPlace::anonymous, std::nullopt, 8}}},
  };
}

inline std::vector<wire::ServiceMessage> sample_service_messages() {
  wire::HelloReply hello;
  hello.session = 4;
  hello.version = "0.1.0";
  hello.revoke_deadline_ns = 1;
  hello.cooperative_deadline_ns = 2;
  hello.devices = {{"host", wire::DeviceKind::host, 8 << 20, 1, 1ull << 33},
                   {"cuda-0123abcd", wire::DeviceKind::cuda, 32 << 20, 512, 1ull << 37}};
  wire::TableReply table;
  table.table = 9;
  table.overlay_table = 10;
  table.pages = 3;
  table.layout = wire::Layout::shifted;
  table.page_bytes = 4096;
  table.table_bytes = 8193;
  table.shift_bytes = 100;
  table.tensor_offsets = 4;
  table.device_socket = true;
  return {
      hello,
      wire::Refused{1, 2, "protocol 1 here, 2 there"},
      wire::Done{},
      Failure{FailureKind::quota, "5 GiB wanted, 4 GiB allowed", "ask for less"},
      wire::CheckpointReply{77, "0123456789ab", 2, 3, 400, 300, 200},
      table,
      wire::AdmitReply{5, 6, 7},
      wire::BufferReply{8, 9},
      wire::FreeReply{10},
      wire::FileReply{3, 1ull << 33},
      wire::QueryReply{R"({"devices":[]})", 14},
      wire::QueryReply{"", 1 << 20},
      wire::Closing{},
      wire::Pressure{wire::PressureLevel::full, 2, 300},
      wire::Pressure{wire::PressureLevel::some, std::nullopt, 0},
      wire::TableGone{9, FailureKind::changed_while_read},
      wire::Progress{1, 2},
  };
}

inline std::vector<PeerMessage> sample_peer_messages() {
  return {
      PeerFault{1, 2, 3, 4},
      PeerPrefetch{5, 6, 7, 8},
      PeerMakePrivate{9, 10, 11, 12},
      PeerGranted{13},
      PeerAcked{14, 15, 16},
      PeerBusy{17, 18, 19, false},
      PeerBusy{17, 18, 19, true},
      PeerIdle{20, 21},
      PeerRelease{22, 23, 24, 25, false},
      PeerRelease{0, 23, 24, 25, true},
      PeerPrioritize{26},
      PeerCutoff{27, 28},
      PeerCancel{29},
  };
}

// An event has no request number.
inline std::uint64_t request_for(const wire::ServiceMessage& message) {
  const bool event = std::holds_alternative<wire::Closing>(message) ||
                     std::holds_alternative<wire::Pressure>(message) ||
                     std::holds_alternative<wire::TableGone>(message);
  return event ? 0 : 4711;
}

}  // namespace penstock::test
