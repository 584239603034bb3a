// SPDX-License-Identifier: Apache-2.0
// A filesystem in a file, mounted over a loop device. Needs root.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace penstock::test {

class LoopImage {
 public:
  // Makes `folder`/image with the filesystem (`ext4`, `xfs`, ...) and mounts it on `folder`/mounted. On failure null,
  // and `missing` says what the machine lacks.
  static std::unique_ptr<LoopImage> make(const std::filesystem::path& folder, const std::string& filesystem,
                                         std::uint64_t bytes, std::string& missing,
                                         const std::string& mount_options = "loop");
  LoopImage(const LoopImage&) = delete;
  LoopImage& operator=(const LoopImage&) = delete;
  ~LoopImage();

  const std::filesystem::path& root() const { return mounted_; }
  const std::filesystem::path& image() const { return image_; }
  bool remount_read_only();

 private:
  LoopImage(std::filesystem::path image, std::filesystem::path mounted)
      : image_(std::move(image)), mounted_(std::move(mounted)) {}

  std::filesystem::path image_;
  std::filesystem::path mounted_;
};

// Mounts `lower` and `upper` as an overlay on `mounted`; all three are made below `folder`. False without the rights.
bool mount_overlay(const std::filesystem::path& lower, const std::filesystem::path& upper,
                   const std::filesystem::path& work, const std::filesystem::path& mounted);
void unmount(const std::filesystem::path& mounted);

// Runs the command without its output; true when it exits with 0.
bool run_command(const std::string& command);

}  // namespace penstock::test
