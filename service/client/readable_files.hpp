// SPDX-License-Identifier: Apache-2.0
// Files that the service knows for reading into host buffers: each is handed over once, and found again by its identity.
#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"

namespace penstock {

class Client;

// What the service knows of a file that changes when somebody writes to it.
struct FileMark {
  std::uint64_t device = 0, inode = 0, bytes = 0, links = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;
  friend bool operator==(const FileMark&, const FileMark&) = default;
};
enum class FileAttributes : std::uint8_t { known_here, asked_for };
Outcome<FileMark> mark_of(int fd, FileAttributes which);

struct ReadableFile {
  Client& client;
  const FileMark mark;
  const std::uint64_t epoch;
  const std::uint64_t handle;
  bool dropped = false;  // By ReadableFiles: the last who uses it tells the service.
  ReadableFile(Client& of, const FileMark& seen, std::uint64_t connection, std::uint64_t number)
      : client(of), mark(seen), epoch(connection), handle(number) {}
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;
  ~ReadableFile();

  // FailureKind::changed_while_read when the file isn't what it was. A rename or another link is no change of content.
  Outcome<void> verify_unchanged(int fd) const;
};

// Any thread.
class ReadableFiles {
 public:
  static constexpr std::size_t kept_max = 16;

  // Of a descriptor that stays the caller's. Hands the file over if need be.
  Outcome<std::shared_ptr<const ReadableFile>> find(Client& client, std::uint64_t epoch, int fd);

 private:
  void keep(std::shared_ptr<ReadableFile> file);

  std::mutex mutex_;
  std::list<std::shared_ptr<ReadableFile>> files_;  // The last used one first.
};

}  // namespace penstock
