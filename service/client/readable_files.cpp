// SPDX-License-Identifier: Apache-2.0
#include "service/client/readable_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "service/client/checkpoint_file.hpp"
#include "service/client/client.hpp"

namespace penstock {
namespace {

// The service looks at the file's metadata alone, and gives up by itself.
constexpr Nanoseconds usual_patience = std::chrono::seconds(60);

std::int64_t nanoseconds(const statx_timestamp& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Outcome<FileMark> mark_of(int fd, FileAttributes which) {
  struct statx status {};
  const int flags = AT_EMPTY_PATH | (which == FileAttributes::known_here ? AT_STATX_DONT_SYNC : 0);
  if (::statx(fd, "", flags, STATX_BASIC_STATS, &status) != 0) {
    return fail(FailureKind::invalid_argument,
                fmt::format("descriptor {}: {}", fd, ::strerrordesc_np(errno)));
  }
  return FileMark{.device = makedev(status.stx_dev_major, status.stx_dev_minor),
                  .inode = status.stx_ino,
                  .bytes = status.stx_size,
                  .links = status.stx_nlink,
                  .mtime_ns = nanoseconds(status.stx_mtime),
                  .ctime_ns = nanoseconds(status.stx_ctime)};
}

ReadableFile::~ReadableFile() {
  if (dropped) client.post_on(epoch, wire::DropFile{handle});
}

Outcome<void> ReadableFile::verify_unchanged(int fd) const {
  auto now = mark_of(fd, FileAttributes::asked_for);
  if (!now) return tl::unexpected(std::move(now.error()));
  if (now->links != mark.links) now->ctime_ns = mark.ctime_ns;
  now->links = mark.links;
  if (*now == mark) return {};
  return fail(FailureKind::changed_while_read, "the file was changed while it was read");
}

Outcome<std::shared_ptr<const ReadableFile>> ReadableFiles::find(Client& client, std::uint64_t epoch,
                                                                 int fd) {
  const int mode = ::fcntl(fd, F_GETFL);
  if (mode >= 0 && ((mode & O_PATH) != 0 || (mode & O_ACCMODE) == O_WRONLY)) {
    return fail(FailureKind::invalid_argument, fmt::format("descriptor {} is not open for reading", fd));
  }
  // Without a word to a network's server: a read from it may be given up in time, this could not.
  const auto mark = mark_of(fd, FileAttributes::known_here);
  if (!mark) return tl::unexpected(mark.error());
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(
        files_, [&](const auto& file) { return file->epoch == epoch && file->mark == *mark; });
    if (found != files_.end()) {
      files_.splice(files_.begin(), files_, found);
      return files_.front();
    }
  }
  auto file = reopen_checkpoint_file(fd, nullptr);
  if (!file) return tl::unexpected(std::move(file.error()));
  std::vector<int> fds{file->cached.get()};
  if (file->direct) fds.push_back(file->direct.get());
  const auto reply = client.ask_on<wire::FileReply>(epoch, wire::AddFile{file->name, fds.size() == 2},
                                                    client.patience(usual_patience), fds);
  if (!reply) return tl::unexpected(reply.error());
  const auto& told = std::get<wire::FileReply>(reply->message);
  auto added = std::make_shared<ReadableFile>(client, *mark, epoch, told.file);
  if (told.bytes != mark->bytes) {
    added->dropped = true;
    return fail(FailureKind::changed_while_read, "the file was changed while it was handed over");
  }
  keep(added);
  return added;
}

void ReadableFiles::keep(std::shared_ptr<ReadableFile> file) {
  std::vector<std::shared_ptr<ReadableFile>> gone;  // Told outside of the lock.
  const std::lock_guard lock(mutex_);
  for (auto at = files_.begin(); at != files_.end();) {
    const bool old = (*at)->epoch != file->epoch;
    const bool same = (*at)->mark.device == file->mark.device && (*at)->mark.inode == file->mark.inode;
    if (!old) (*at)->dropped = same;
    if (same && !old) gone.push_back(*at);
    at = old || same ? files_.erase(at) : std::next(at);
  }
  files_.push_front(std::move(file));
  if (files_.size() <= kept_max) return;
  files_.back()->dropped = true;
  gone.push_back(std::move(files_.back()));
  files_.pop_back();
}

}  // namespace penstock
