// SPDX-License-Identifier: Apache-2.0
// WriterLoop: penstock-writer's only loop. Takes commands from the service, has the filler carry them out, answers.
//
//  L1 Commands are checked before the filler sees them: known frames, rights of their maps, ranges, dtypes. A wrong one
//     ends the process: the service doesn't send such, so one of the two is broken.
//  L2 While the filler is busy no message is taken from the socket, so at most one message of commands waits here. It is
//     asked again after all that it reached.
//  L3 Answers that don't fit into the socket wait here, bounded: nothing new is taken until they are sent.
//  L4 The memory that the filler copies from is unmapped after the filler has ended, which waits for what it had queued.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/writer/hosted_filler.hpp"
#include "dataplane/writer/writer_channel.hpp"

namespace penstock {

class WriterLoop {
 public:
  WriterLoop(WriterChannel channel, std::unique_ptr<HostedFiller> filler)
      : channel_(std::move(channel)), filler_(std::move(filler)) {}

  // Until the service hangs up (success), or something fails. Says `ready` first.
  Result<> run();

 private:
  struct MappedFrame {
    std::uint64_t bytes = 0;
    bool writable = false;
    std::optional<Error> failure;  // Why the filler could not map it.
  };
  struct InFlight {
    FenceId own{};     // The filler's.
    FenceId theirs{};  // The service's.
    bool checksum = false;
    bool failed = false;  // Of a frame that could not be mapped: the filler never heard of it.
  };

  Result<> wait();
  Result<> take_commands();
  // False: the filler is busy.
  Result<bool> carry_out(std::size_t index);
  Result<FenceId> start(const WriterCommand& command, UniqueFd& descriptor);
  void tell_map_failure(const WriterCommand& command, FenceId own);
  const Error* mapping_failure(const WriterCommand& command) const;
  void fail(const WriterCommand& command, const Error& error);
  Result<FenceId> start_map(const WriterCommand& command, UniqueFd& descriptor);
  Result<> check(const WriterCommand& command) const;
  Result<> check_copy(const WriterCommand& command) const;
  Result<> check_source(const WriterCommand& command) const;
  Result<FenceId> start_source(const WriterCommand& command, const UniqueFd& descriptor);
  std::span<const std::byte> source_of(const WriterCommand& command) const;
  Result<> stage(const WriterCommand& command, const UniqueFd& descriptor);
  Result<> answer_reached();
  Result<> send_answers();

  WriterChannel channel_;
  Mapping staging_;
  std::unordered_map<SourceId, Mapping> sources_;
  const std::unique_ptr<HostedFiller> filler_;  // Goes before what it copies from: L4.
  std::unordered_map<FrameId, MappedFrame> frames_;
  ReceivedCommands received_;
  std::size_t next_ = 0;       // Of received_.
  FenceId reached_{};          // The filler's.
  bool filler_moved_ = false;  // Since it was last told to do something.
  std::deque<InFlight> in_flight_;
  std::deque<WriterAnswer> answers_;
};

}  // namespace penstock
