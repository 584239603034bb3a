// SPDX-License-Identifier: Apache-2.0
#include "service/control/checkpoint_registry.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "dataplane/io/read_index.hpp"
#include "service/control/descriptor_path.hpp"

namespace penstock {
namespace {

Failure named(Failure failure, const std::string& name) {
  if (!name.empty()) failure.message = name + ": " + failure.message;
  return failure;
}

Outcome<std::shared_ptr<const CheckpointIndex>> read_index(const CheckpointFile& file) {
  auto index = read_index_of(file);
  if (!index) return tl::unexpected(index.error());
  return std::make_shared<const CheckpointIndex>(std::move(*index));
}
}  // namespace

void CheckpointRegistry::open(UniqueFd cached, UniqueFd direct, std::string name, Answer answer) {
  // A std::function must be copyable, descriptors are not.
  auto fds = std::make_shared<std::pair<UniqueFd, UniqueFd>>(std::move(cached), std::move(direct));
  std::string subject = path_of_descriptor(fds->first.get());
  opener_.run<std::shared_ptr<CheckpointFile>>(
      std::move(subject),
      [fds, disposal = disposal_] { return disposal->adopt(std::move(fds->first), std::move(fds->second)); },
      [this, name = std::move(name), answer = std::move(answer)](
          Outcome<std::shared_ptr<CheckpointFile>> file) { identified(std::move(file), name, answer); });
}

void CheckpointRegistry::identified(Outcome<std::shared_ptr<CheckpointFile>> file, const std::string& name,
                                    Answer answer) {
  if (!file) {
    answer(tl::unexpected<Failure>(named(std::move(file.error()), name)));
    return;
  }
  const std::string id = (*file)->identity().id();
  if (const auto known = entries_.find(id); known != entries_.end()) {
    touch(*known->second);
    answer(known->second);
    return;
  }
  Pending& pending = parsing_[id];
  pending.waiting.push_back(std::move(answer));
  if (pending.checkpoint) return;
  pending.checkpoint = std::make_shared<Checkpoint>();
  pending.checkpoint->id = id;
  pending.checkpoint->path = path_of_descriptor((*file)->cached_fd());
  pending.checkpoint->name =
      name.empty() ? pending.checkpoint->path.substr(pending.checkpoint->path.rfind('/') + 1) : name;
  pending.checkpoint->file = *file;
  ++parses_;
  opener_.run<std::shared_ptr<const CheckpointIndex>>(
      pending.checkpoint->path, [file = *file] { return read_index(*file); },
      [this, id](Outcome<std::shared_ptr<const CheckpointIndex>> index) { parsed(id, std::move(index)); });
}

void CheckpointRegistry::parsed(const std::string& id,
                                Outcome<std::shared_ptr<const CheckpointIndex>> index) {
  const auto found = parsing_.find(id);
  if (found == parsing_.end()) return;
  const Pending pending = std::move(found->second);
  parsing_.erase(found);
  if (index) {
    pending.checkpoint->index = std::move(*index);
    touch(*pending.checkpoint);
    entries_[id] = pending.checkpoint;
    if (hooks_.opened) hooks_.opened(*pending.checkpoint);
  }
  for (const Answer& answer : pending.waiting) {
    if (index)
      answer(pending.checkpoint);
    else
      // Who presents the file may know where it lies.
      answer(tl::unexpected<Failure>(named(index.error(), pending.checkpoint->path)));
  }
}

void CheckpointRegistry::forget(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->sessions != 0) return;
  if (hooks_.forgotten) hooks_.forgotten(*found->second);
  entries_.erase(found);
}

std::shared_ptr<Checkpoint> CheckpointRegistry::find(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Checkpoint>> CheckpointRegistry::surplus() const {
  std::vector<std::shared_ptr<Checkpoint>> idle;
  for (const auto& [id, checkpoint] : entries_) {
    if (checkpoint->sessions == 0) idle.push_back(checkpoint);
  }
  if (idle.size() <= idle_entries_max) return {};
  std::ranges::sort(idle, {}, [](const auto& checkpoint) { return checkpoint->last_used; });
  idle.resize(idle.size() - idle_entries_max);
  return idle;
}

std::vector<std::shared_ptr<Checkpoint>> CheckpointRegistry::outdated_by(const FileIdentity& fresh) const {
  std::vector<std::shared_ptr<Checkpoint>> outdated;
  for (const auto& [id, checkpoint] : entries_) {
    const FileIdentity& old = checkpoint->identity();
    if (old.device == fresh.device && old.inode == fresh.inode && old != fresh)
      outdated.push_back(checkpoint);
  }
  return outdated;
}

}  // namespace penstock
