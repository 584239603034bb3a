// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/stream_files.hpp"

#include "dataplane/base/check.hpp"

namespace penstock {

Result<StreamFile> StreamFiles::acquire(const std::shared_ptr<CheckpointFile>& file) {
  const auto known = entries_.find(file.get());
  if (known != entries_.end()) {
    ++known->second.users;
    return known->second.id;
  }
  const StreamFile id = TRY(stream_.add(file));
  entries_.emplace(file.get(), Entry{.id = id, .users = 1});
  return id;
}

void StreamFiles::release(const std::shared_ptr<CheckpointFile>& file) {
  const auto known = entries_.find(file.get());
  CHECK(known != entries_.end() && known->second.users > 0);
  if (--known->second.users > 0) return;
  stream_.remove(known->second.id);
  entries_.erase(known);
}

}  // namespace penstock
