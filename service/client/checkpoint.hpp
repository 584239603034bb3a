// SPDX-License-Identifier: Apache-2.0
// Checkpoint: an open checkpoint file, and what the service found in it. Constant, except for its handle, which each
// connection gives anew.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "service/client/checkpoint_file.hpp"
#include "service/client/control.hpp"
#include "service/protocol/index_blob.hpp"

namespace penstock {

class Checkpoint {
 public:
  // Reads the reply and the index that came with it.
  static Outcome<std::unique_ptr<Checkpoint>> make(CheckpointFile file, Reply reply);

  const std::string& id() const { return id_; }
  const std::string& name() const { return file_.name; }
  const CheckpointFile& file() const { return file_; }
  const IndexContent& index() const { return index_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  std::uint64_t tensor_bytes() const { return tensor_bytes_; }
  std::optional<std::uint32_t> find(std::string_view name) const;

  // Handle of the connection `epoch`; under the client's lock of openings.
  std::uint64_t epoch = 0;
  std::uint64_t handle = 0;

 private:
  Checkpoint() = default;

  CheckpointFile file_;
  std::string id_;
  IndexContent index_;
  std::vector<std::uint32_t> by_name_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t tensor_bytes_ = 0;
};

}  // namespace penstock
