// SPDX-License-Identifier: Apache-2.0
// Page tables that sessions share: one for each (content, layout, device). Service thread only.
//
// A table stays, with its resident pages, when its last session leaves: the next one finds it warm. It goes when its
// checkpoint is outdated, forgotten, or its pages were evicted while nobody used it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/pager/mail.hpp"
#include "service/control/checkpoint_registry.hpp"
#include "service/control/device_link.hpp"

namespace penstock {

enum class TableLayout : std::uint8_t { automatic, identity, shifted, scattered };

struct SharedTable {
  TableId id{};
  TableKind kind = TableKind::file;
  TableLayout layout = TableLayout::identity;
  std::string key;
  DeviceLink* device = nullptr;
  std::uint32_t pages = 0;
  std::uint64_t bytes = 0;
  std::shared_ptr<const TableSource> source;  // Null for anonymous and overlay tables.
  std::shared_ptr<PageWords> words;
  std::vector<std::shared_ptr<Checkpoint>> checkpoints;  // Whose bytes it shows.
  std::vector<std::uint64_t> tensor_offsets;             // Scattered: one a tensor, in index order.
  SessionId owner{};                                     // Of those tables: who alone can fill them.
  SourcePlace source_place = SourcePlace::disk;          // By SourcePlaces.
  std::uint32_t attached = 0;                            // Sessions.
  std::uint64_t last_used = 0;                           // Order of leaving, for dropping idle tables.

  std::uint64_t resident_bytes() const;  // By its page words: a hint.
};

class TableRegistry {
 public:
  // Assembled tables that nobody has open; any client can ask for a new one with another manifest.
  static constexpr std::size_t idle_assembled_max = 64;

  // The shared table of a checkpoint, made when it is the first request. Unsupported: a layout that the device has not.
  Outcome<std::shared_ptr<SharedTable>> file_table(const std::shared_ptr<Checkpoint>& checkpoint,
                                                   DeviceLink& device, TableLayout layout);
  // `pieces` comes from a manifest of the client: validated here. `key` is the manifest's digest.
  Outcome<std::shared_ptr<SharedTable>> assembled_table(std::string key, std::vector<LayoutPiece> pieces,
                                                        std::vector<std::shared_ptr<Checkpoint>> checkpoints,
                                                        DeviceLink& device);
  Outcome<std::shared_ptr<SharedTable>> anonymous_table(std::uint64_t bytes, DeviceLink& device,
                                                        SessionId owner);
  Outcome<std::shared_ptr<SharedTable>> overlay_table(const SharedTable& origin, SessionId owner);

  void attach(SharedTable& table, SessionId session, TableNumber number, RevokeMode mode,
              std::shared_ptr<const PinWords> pins);
  void detach(SharedTable& table, SessionId session);
  // REQUIRES: nobody is attached.
  void close(const std::shared_ptr<SharedTable>& table);

  // Assembled tables beyond idle_assembled_max, those that were left first.
  std::vector<std::shared_ptr<SharedTable>> surplus() const;
  std::shared_ptr<SharedTable> find(TableId id) const;
  std::vector<std::shared_ptr<SharedTable>> of(const Checkpoint& checkpoint) const;
  const std::map<TableId, std::shared_ptr<SharedTable>>& tables() const { return tables_; }

 private:
  Outcome<std::shared_ptr<SharedTable>> open(SharedTable table, SessionId owner, TableId origin);

  std::map<TableId, std::shared_ptr<SharedTable>> tables_;
  std::map<std::string, std::shared_ptr<SharedTable>> by_key_;
  std::uint32_t last_id_ = 0;
  std::uint64_t uses_ = 0;
};

// Identity where every tensor meets the alignment that its dtype or the device asks for, else scattered.
TableLayout choose_layout(const CheckpointIndex& index, const DeviceLimits& limits);

}  // namespace penstock
