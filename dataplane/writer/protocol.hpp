// SPDX-License-Identifier: Apache-2.0
// What the service and penstock-writer say to each other, over one SEQPACKET socket pair. Both are of one build; the
// version only guards against a package that was replaced under a running service.
//
// Service to writer: messages of 1 to writer_commands_max commands, carried out in order. Commands that bring a
// descriptor find theirs among the message's, in the order of the commands. Writer to service: messages of 1 to
// writer_answers_max answers. Frames, and the staging memory, travel as descriptors; their bytes never travel.
//
// Every command but `stage` and `ping` has a fence, numbered from the service's counter, always increasing. `reached`
// says that all commands up to its fence are done; what else there is to say about a command comes before that.
#pragma once

#include <cstdint>
#include <type_traits>

#include "dataplane/base/ids.hpp"
#include "dataplane/core/dtype.hpp"

namespace penstock {

inline constexpr std::uint16_t writer_protocol_version = 3;
inline constexpr int writer_socket_number = 3;  // The writer's end, when it starts.

enum class WriterOp : std::uint8_t {
  stage,        // bytes = size of the staging memory; descriptor. Before the first copy.
  add_source,   // source, bytes; descriptor. Memory that is copied from, as the staging memory is.
  drop_source,  // source; no copy from it is pending.
  map,          // frame, bytes; descriptor. `fresh`: to be zeroed and filled; else only read from.
  unmap,        // frame; nothing else of it is pending.
  copy,         // frame, offset; source_offset and bytes of source, 0 being the staging memory; conversion.
  copy_frame,   // frame <- from, whole.
  checksum,     // frame, whole.
  ping,
};
inline constexpr std::uint8_t writer_op_count = 9;

struct WriterCommand {
  WriterOp op = WriterOp::ping;
  bool fresh = false;
  Dtype stored = Dtype::u8;
  Dtype wanted = Dtype::u8;
  float scale = 1.0f;
  FrameId frame{};
  FrameId from{};
  FenceId fence{};
  std::uint64_t offset = 0;
  std::uint64_t source_offset = 0;
  std::uint64_t bytes = 0;
  SourceId source{};
  std::uint32_t reserved = 0;
};
static_assert(sizeof(WriterCommand) == 56 && std::is_trivially_copyable_v<WriterCommand>);

constexpr bool brings_descriptor(WriterOp op) {
  return op == WriterOp::stage || op == WriterOp::add_source || op == WriterOp::map;
}

enum class WriterAnswerKind : std::uint8_t {
  ready,    // Once, first: the device can be used. version; value as in pong.
  reached,  // fence; may skip some.
  map_failed,  // frame, fence, native; before that fence. What else was said of the frame fails; it is to be unmapped.
  copy_failed,  // fence, native; before that fence. Nothing was copied, as one of its frames could not be mapped.
  checksum,  // fence, value; before the fence. If not_taken: code and native say why.
  pong,      // value = free bytes of the device as the writer sees them, or 0.
  failed,    // code (of Errc), native: the writer can't go on and ends.
};
inline constexpr std::uint8_t writer_answer_count = 7;

struct WriterAnswer {
  WriterAnswerKind kind = WriterAnswerKind::pong;
  std::uint8_t code = 0;
  std::uint16_t version = 0;
  std::int32_t native = 0;
  FenceId fence{};
  std::uint64_t value = 0;
  FrameId frame{};
  std::uint32_t not_taken = 0;
};
static_assert(sizeof(WriterAnswer) == 32 && std::is_trivially_copyable_v<WriterAnswer>);

inline constexpr std::uint32_t writer_commands_max = 32;  // Of one message; so are its descriptors.
inline constexpr std::uint32_t writer_answers_max = 64;

}  // namespace penstock
