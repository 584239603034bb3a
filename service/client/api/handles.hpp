// SPDX-License-Identifier: Apache-2.0
// What stands behind the opaque handles of penstock.h, and what each function of it does first.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/mapping.hpp"
#include "service/client/client.hpp"
#include "service/client/include/penstock.h"
#include "service/client/readable_files.hpp"
#include "service/client/status.hpp"

namespace penstock {

// Owns the handles of one kind until they are closed, or the client is.
template <class Handle>
class Handles {
 public:
  Handle* add(std::unique_ptr<Handle> handle) {
    const std::lock_guard lock(mutex_);
    Handle* const raw = handle.get();
    handles_.emplace(raw, std::move(handle));
    return raw;
  }
  std::unique_ptr<Handle> take(Handle* handle) {
    const std::lock_guard lock(mutex_);
    auto node = handles_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Handle*, std::unique_ptr<Handle>> handles_;
};

}  // namespace penstock

struct pst_checkpoint {
  pst_client* owner;
  std::shared_ptr<penstock::Checkpoint> checkpoint;
};

struct pst_table {
  penstock::Table* table;  // Of `open`; first, because pins need nothing else.
  pst_client* owner;
  penstock::OpenTable* open;
  std::shared_ptr<penstock::TableCopy> copy;  // Empty unless the table is one on a GPU that shares nothing.
};

struct pst_grant {
  pst_client* owner;
  std::uint64_t epoch;
  std::uint64_t number;
  std::uint64_t work_bytes;
};

struct pst_host_buffer {
  // One buffer of the service's, mapped at its place in the range; whole small pages.
  struct Piece {
    std::uint64_t epoch;
    std::uint64_t number;
    std::uint64_t at;
    std::uint64_t bytes;
    std::uint64_t end() const { return at + bytes; }
  };
  pst_client* owner;
  std::uint64_t bytes_max;
  penstock::Mapping range;
  mutable std::mutex mutex;
  // Under the mutex.
  std::uint64_t bytes = 0;
  std::vector<Piece> pieces;  // Without gaps from the start on; the last may reach beyond `bytes`.
};

struct pst_client {
  std::unique_ptr<penstock::Client> client;
  penstock::Handles<pst_checkpoint> checkpoints;
  penstock::Handles<pst_table> tables;
  penstock::Handles<pst_grant> grants;
  penstock::Handles<pst_host_buffer> buffers;
  penstock::ReadableFiles readable_files;
};

namespace penstock {

pst_status report_forked(const pst_client* owner);
pst_status report_invalid(const pst_client* owner, const char* what);

// The two checks that every function makes; PST_DONE: go on. REQUIRES: arguments are not null when `complete`.
inline pst_status check_handle(const pst_client* owner, bool complete = true) {
  if (owner == nullptr || !complete) [[unlikely]]
    return report_invalid(owner, "a null pointer");
  if (owner->client->forked()) [[unlikely]]
    return report_forked(owner);
  return PST_DONE;
}
template <class Handle>
const pst_client* owner_of(const Handle* handle) {
  return handle == nullptr ? nullptr : handle->owner;
}

// A struct of the caller, which may be older or newer than ours: what it lacks is zero.
template <class Struct>
Struct copy_in(const Struct* from) {
  Struct copy{};
  if (from == nullptr) return copy;
  std::memcpy(&copy, from, from->size < sizeof copy ? from->size : sizeof copy);
  copy.size = sizeof copy;
  return copy;
}
// The other way; keeps the caller's size. False when the size is none.
template <class Struct>
bool copy_out(Struct from, Struct* to) {
  const std::uint32_t size = to->size;
  if (size < sizeof size) return false;
  from.size = size;
  std::memcpy(to, &from, size < sizeof from ? size : sizeof from);
  return true;
}

pst_status query(pst_client* client, const char* what, std::string arguments, char** json);

Nanoseconds deadline_after(std::uint64_t timeout_ns);
// As a span; `never` where it is so long.
Nanoseconds time_of(std::uint64_t timeout_ns);

}  // namespace penstock
