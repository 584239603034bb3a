// SPDX-License-Identifier: Apache-2.0
// One parse and one entry per file identity, however many names, descriptors and clients arrive, also when they arrive
// together: the first one's parse serves all (G05). Service thread only; file calls run on the Opener.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/core/checkpoint_index.hpp"
#include "dataplane/io/checkpoint_file.hpp"
#include "service/control/file_disposal.hpp"
#include "service/control/opener.hpp"

namespace penstock {

struct Checkpoint {
  std::string id;    // 12 hex digits of the identity.
  std::string name;  // What the first client called it; shown to people only.
  // Where its descriptor pointed then; shown to root, the admin group and users of the file.
  std::string path;
  std::shared_ptr<CheckpointFile> file;
  std::shared_ptr<const CheckpointIndex> index;
  std::uint32_t sessions = 0;   // That have it open.
  std::uint64_t last_used = 0;  // Order of closing, for dropping idle entries.
  bool unwanted = false;        // Somebody asked that it be forgotten, and nobody has opened it since.
  bool unlinked = false;        // The file lost its last name, and what we hold of it keeps its blocks.
  const FileIdentity& identity() const { return file->identity(); }
};

class CheckpointRegistry {
 public:
  using Answer = std::function<void(Outcome<std::shared_ptr<Checkpoint>>)>;
  static constexpr std::size_t idle_entries_max = 256;

  CheckpointRegistry(Opener& opener, std::shared_ptr<FileDisposal> disposal)
      : opener_(opener), disposal_(std::move(disposal)) {}

  // Called on the service thread when an entry has come, and before it goes.
  struct Hooks {
    std::function<void(const Checkpoint&)> opened, forgotten;
  };
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }

  // Answers once, later, on the service thread. `direct` may be empty.
  void open(UniqueFd cached, UniqueFd direct, std::string name, Answer answer);
  // Forgets an entry that nobody has open. Called when its last table is gone.
  void forget(const std::string& id);

  const std::map<std::string, std::shared_ptr<Checkpoint>>& entries() const { return entries_; }
  std::shared_ptr<Checkpoint> find(const std::string& id) const;
  std::uint64_t parses() const { return parses_; }  // Headers really read.
  void touch(Checkpoint& checkpoint) { checkpoint.last_used = ++clock_; }
  // Idle entries beyond the bound, oldest first: their tables should be closed, then forget().
  std::vector<std::shared_ptr<Checkpoint>> surplus() const;
  // Entries of the same inode whose identity is not `fresh`: the file was changed or replaced.
  std::vector<std::shared_ptr<Checkpoint>> outdated_by(const FileIdentity& fresh) const;

 private:
  void identified(Outcome<std::shared_ptr<CheckpointFile>> file, const std::string& name, Answer answer);
  void parsed(const std::string& id, Outcome<std::shared_ptr<const CheckpointIndex>> index);

  Opener& opener_;
  std::shared_ptr<FileDisposal> disposal_;
  Hooks hooks_;
  std::map<std::string, std::shared_ptr<Checkpoint>> entries_;
  struct Pending {
    std::shared_ptr<Checkpoint> checkpoint;
    std::vector<Answer> waiting;
  };
  std::map<std::string, Pending> parsing_;
  std::uint64_t parses_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace penstock
