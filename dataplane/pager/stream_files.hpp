// SPDX-License-Identifier: Apache-2.0
// Which checkpoint files a ReadStream knows, counted by user: tables share files, the stream's table of files is small.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "dataplane/base/result.hpp"
#include "dataplane/io/checkpoint_file.hpp"
#include "dataplane/io/read_stream.hpp"

namespace penstock {

class StreamFiles {
 public:
  explicit StreamFiles(ReadStream& stream) : stream_(stream) {}
  StreamFiles(const StreamFiles&) = delete;
  StreamFiles& operator=(const StreamFiles&) = delete;

  // Errc::exhausted when the stream has no room for another file.
  Result<StreamFile> acquire(const std::shared_ptr<CheckpointFile>& file);
  // REQUIRES: acquired as often as released; no read of this user is under way.
  void release(const std::shared_ptr<CheckpointFile>& file);

 private:
  struct Entry {
    StreamFile id{};
    std::uint32_t users = 0;
  };
  ReadStream& stream_;
  std::unordered_map<const CheckpointFile*, Entry> entries_;
};

}  // namespace penstock
