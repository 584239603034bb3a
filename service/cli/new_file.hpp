// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name complete, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

enum class Existing : std::uint8_t { kept, replaced };

// Written without a name, which publish() gives: nothing remains of it otherwise, not even after a SIGKILL. Where the
// filesystem has no such files it is written under another name in the same folder, and removed by the destructor.
class NewFile {
 public:
  // Refuses (invalid_argument) where `path` exists and is to be kept.
  static Outcome<NewFile> create(const std::string& path, Existing existing);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // Takes the room on the disk, where the filesystem can; a full disk is `exhausted`, with the numbers.
  Outcome<void> reserve(std::uint64_t bytes);
  // Appends.
  Outcome<void> write(std::span<const std::byte> bytes);
  // Makes the content durable and gives it its name.
  Outcome<void> publish();
  // Takes the name back after publish(): what it belongs to did not come about.
  void withdraw();

 private:
  NewFile(std::string path, std::string partial, Existing existing, UniqueFd fd);
  int name(const std::string& as);
  Failure failed(const char* operation, int native) const;

  std::string path_;
  std::string partial_;  // Empty while it has no name, and once there is nothing to remove.
  Existing existing_;
  UniqueFd fd_;
};

}  // namespace penstock
