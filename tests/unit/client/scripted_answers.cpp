// SPDX-License-Identifier: Apache-2.0
// ScriptedService: its thread, and what it answers by itself.
#include <gtest/gtest.h>

#include "tests/unit/client/scripted_service.hpp"

#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"
#include "service/protocol/index_blob.hpp"
#include "service/protocol/sealed_blob.hpp"
#include "service/protocol/socket_io.hpp"

namespace penstock::test {
namespace {

std::vector<std::byte> index_of_two_tensors() {
  const IndexContent content{
      .format = "safetensors",
      .files = {{.name = "model.safetensors", .bytes = 8 * page_bytes, .data_offset = 4096}},
      .tensors =
          {{.name = "b.weight", .dtype = Dtype::u8, .shape = {2, 100}, .extent = {4096, 200}, .file = 0},
           {.name = "a.weight", .dtype = Dtype::bf16, .shape = {100}, .extent = {4296, 200}, .file = 0}},
      .metadata = {{"format", "pt"}}};
  return *build_index_blob(content);
}

}  // namespace

void ScriptedService::serve() {
  while (true) {
    pollfd fds[3] = {{stop_.fd(), POLLIN, 0}, {listener_.get(), POLLIN, 0}, {control_.get(), POLLIN, 0}};
    CHECK(::poll(fds, 3, -1) > 0);
    if (fds[0].revents != 0) return;
    if (fds[1].revents != 0) control_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fds[2].revents != 0 && !serve_one()) control_.reset();
  }
}

bool ScriptedService::serve_one() {
  const auto length = receive_message(control_.get(), buffer_, fds_);
  if (!length) return length.error().code == Errc::busy;
  const auto decoded = wire::decode_client_message(std::span(buffer_).first(*length), fds_.size());
  if (!decoded) return false;
  auto own = on_request ? on_request(decoded->request, decoded->message)
                        : std::optional<wire::ServiceMessage>(wire::Done{});
  if (own && !std::holds_alternative<wire::Done>(*own)) {
    reply(decoded->request, *own);
  } else if (own) {
    answer(decoded->request, decoded->message);
  }
  {
    const std::lock_guard lock(mutex_);
    requests_.emplace_back(decoded->request, decoded->message);
  }
  changed_.notify_all();
  return true;
}

void ScriptedService::answer(std::uint64_t request, const wire::ClientMessage& message) {
  if (std::holds_alternative<wire::Hello>(message)) {
    if (protocol != PSTW_PROTOCOL) {
      return reply(
          request,
          wire::Refused{.service_protocol = protocol, .client_protocol = PSTW_PROTOCOL, .text = "no"});
    }
    return reply(
        request,
        wire::HelloReply{.session = 7,
                         .version = "test",
                         .revoke_deadline_ns = 1'000'000'000,
                         .cooperative_deadline_ns = 30'000'000'000,
                         .devices = {{.id = "host", .frame_bytes = page_bytes, .capacity_bytes = 1 << 30}}});
  }
  if (std::holds_alternative<wire::OpenCheckpoint>(message)) return answer_checkpoint(request);
  if (const auto* open = std::get_if<wire::OpenTable>(&message)) return answer_table(request, *open);
  if (const auto* create = std::get_if<wire::CreateBuffer>(&message)) return answer_buffer(request, *create);
  if (const auto* admit = std::get_if<wire::Admit>(&message)) {
    return reply(request, wire::AdmitReply{.grant = 5, .work_bytes = admit->work_bytes, .waited_ns = 0});
  }
  if (std::holds_alternative<wire::Free>(message)) return reply(request, wire::FreeReply{.freed_bytes = 0});
  if (const auto* query = std::get_if<wire::Query>(&message))
    return reply(request, wire::QueryReply{.json = query->json});
  if (std::holds_alternative<wire::CancelRequest>(message)) return;
  reply(request, wire::Done{});
}

void ScriptedService::answer_checkpoint(std::uint64_t request) {
  const auto index = index_of_two_tensors();
  const UniqueFd blob = *make_sealed_blob("index", index);
  const int fds[] = {blob.get()};
  reply(request,
        wire::CheckpointReply{.checkpoint = ++last_handle_,
                              .id = checkpoint_id,
                              .files = 1,
                              .tensors = 2,
                              .file_bytes = 8 * page_bytes,
                              .tensor_bytes = 400,
                              .index_bytes = index.size()},
        fds);
}

void ScriptedService::answer_table(std::uint64_t request, const wire::OpenTable& open) {
  auto table = std::make_unique<ScriptedTable>();
  table->number = ++last_table_;
  table->pages = open.kind == TableKind::anonymous
                     ? static_cast<std::uint32_t>((open.bytes + page_bytes - 1) / page_bytes)
                     : pages;
  table->asked = open;
  table->words = std::make_shared<SharedWords>(table->pages);
  table->pins = std::make_shared<SharedWords>(table->pages);
  std::vector<int> fds{table->words->fd.get(), table->pins->fd.get()};
  if (open.overlay) {
    table->overlay = ++last_table_;
    table->overlay_words = std::make_shared<SharedWords>(table->pages);
    fds.push_back(table->overlay_words->fd.get());
  }
  auto pair = std::move(*make_socket_pair());
  const bool first = device_ == nullptr;
  if (first) fds.push_back(pair.second.get());
  reply(request,
        wire::TableReply{.table = table->number,
                         .overlay_table = table->overlay,
                         .pages = table->pages,
                         .layout = wire::Layout::identity,
                         .page_bytes = page_bytes,
                         .table_bytes = open.kind == TableKind::anonymous ? open.bytes : pages * page_bytes,
                         .shift_bytes = 0,
                         .tensor_offsets = 0,
                         .device_socket = first},
        fds);
  const std::lock_guard lock(mutex_);
  if (first) device_ = std::make_unique<ScriptedDevice>(std::move(pair.first));
  tables_.push_back(std::move(table));
}

void ScriptedService::answer_buffer(std::uint64_t request, const wire::CreateBuffer& create) {
  const UniqueFd buffer = *create_memfd("buffer", create.bytes);
  const int fds[] = {buffer.get()};
  reply(request, wire::BufferReply{.buffer = 3, .bytes = create.bytes}, fds);
}

}  // namespace penstock::test
