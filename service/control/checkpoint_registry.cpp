// SPDX-License-Identifier: Apache-2.0
#include "service/control/checkpoint_registry.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "dataplane/core/checkpoint_parser.hpp"

namespace penstock {
namespace {

Outcome<void> read_fully(int fd, std::uint64_t offset, std::span<std::byte> into) {
  std::size_t have = 0;
  while (have < into.size()) {
    const ssize_t got = ::pread(fd, into.data() + have, into.size() - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(FailureKind::io_error, fmt::format("reading the header: {}", std::strerror(errno)),
                  "the medium or the network share reports an error; see the kernel log");
    }
    if (got == 0) {
      return fail(FailureKind::changed_while_read,
                  fmt::format("the file ended at byte {} while its header was read", offset + have),
                  "something truncates the file; try again when it is complete");
    }
    have += static_cast<std::size_t>(got);
  }
  return {};
}

std::string path_of(int fd) {
  char text[4096];
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), text, sizeof text);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

Failure named(Failure failure, const std::string& name) {
  if (!name.empty()) failure.message = name + ": " + failure.message;
  return failure;
}

}  // namespace

Outcome<std::shared_ptr<const CheckpointIndex>> read_index(const CheckpointFile& file) {
  const std::uint64_t file_bytes = file.identity().bytes;
  std::vector<std::byte> header(std::min(file_bytes, identify_bytes));
  if (auto read = read_fully(file.cached_fd(), 0, header); !read) return tl::unexpected(read.error());
  const auto plan = identify(header, file_bytes);
  if (!plan) return tl::unexpected(plan.error());
  const std::size_t have = std::min<std::size_t>(header.size(), plan->header_bytes);
  header.resize(plan->header_bytes);
  if (auto read = read_fully(file.cached_fd(), have, std::span(header).subspan(have)); !read) {
    return tl::unexpected(read.error());
  }
  auto index = parse_header(header, file_bytes);
  if (!index) return tl::unexpected(index.error());
  // A header of one moment and bytes of another must never meet.
  if (auto unchanged = file.verify_unchanged(); !unchanged) return tl::unexpected(unchanged.error());
  return std::make_shared<const CheckpointIndex>(std::move(*index));
}

void CheckpointRegistry::open(UniqueFd cached, UniqueFd direct, std::string name, Answer answer) {
  // A std::function must be copyable, descriptors are not.
  auto fds = std::make_shared<std::pair<UniqueFd, UniqueFd>>(std::move(cached), std::move(direct));
  std::string subject = path_of(fds->first.get());
  opener_.run<std::shared_ptr<CheckpointFile>>(
      std::move(subject), [fds] { return CheckpointFile::adopt(std::move(fds->first), std::move(fds->second)); },
      [this, name = std::move(name), answer = std::move(answer)](Outcome<std::shared_ptr<CheckpointFile>> file) {
        identified(std::move(file), name, answer);
      });
}

void CheckpointRegistry::identified(Outcome<std::shared_ptr<CheckpointFile>> file, std::string name, Answer answer) {
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
  pending.checkpoint->path = path_of((*file)->cached_fd());
  pending.checkpoint->name = name.empty() ? pending.checkpoint->path.substr(pending.checkpoint->path.rfind('/') + 1) : name;
  pending.checkpoint->file = *file;
  ++parses_;
  opener_.run<std::shared_ptr<const CheckpointIndex>>(
      pending.checkpoint->path, [file = *file] { return read_index(*file); },
      [this, id](Outcome<std::shared_ptr<const CheckpointIndex>> index) { parsed(id, std::move(index)); });
}

void CheckpointRegistry::parsed(const std::string& id, Outcome<std::shared_ptr<const CheckpointIndex>> index) {
  const auto found = parsing_.find(id);
  if (found == parsing_.end()) return;
  const Pending pending = std::move(found->second);
  parsing_.erase(found);
  if (index) {
    pending.checkpoint->index = std::move(*index);
    touch(*pending.checkpoint);
    entries_[id] = pending.checkpoint;
  }
  for (const Answer& answer : pending.waiting) {
    if (index) answer(pending.checkpoint);
    else answer(tl::unexpected<Failure>(named(index.error(), pending.checkpoint->name)));
  }
}

void CheckpointRegistry::forget(const std::string& id) {
  const auto found = entries_.find(id);
  if (found != entries_.end() && found->second->sessions == 0) entries_.erase(found);
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
    if (old.device == fresh.device && old.inode == fresh.inode && old != fresh) outdated.push_back(checkpoint);
  }
  return outdated;
}

}  // namespace penstock
