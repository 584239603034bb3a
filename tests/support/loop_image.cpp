// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loop_image.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>

#include "dataplane/base/check.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock::test {

bool run_command(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

std::unique_ptr<LoopImage> LoopImage::make(const std::filesystem::path& folder, const std::string& filesystem,
                                           std::uint64_t bytes, std::string& missing,
                                           const std::string& mount_options) {
  if (::geteuid() != 0) {
    missing = "root, to mount a loop device";
    return nullptr;
  }
  const std::filesystem::path image = folder / "image";
  const std::filesystem::path mounted = folder / "mounted";
  const UniqueFd file(::open(image.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  CHECK(file);
  CHECK(::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
  std::filesystem::create_directory(mounted);
  if (!run_command(fmt::format("mkfs.{} -q {}", filesystem, image.string()))) {
    missing = fmt::format("mkfs.{}", filesystem);
    return nullptr;
  }
  if (!run_command(fmt::format("mount -o {} {} {}", mount_options, image.string(), mounted.string()))) {
    missing = fmt::format("a kernel and the rights to mount {} over a loop device", filesystem);
    return nullptr;
  }
  return std::unique_ptr<LoopImage>(new LoopImage(image, mounted));
}

LoopImage::~LoopImage() { unmount(mounted_); }

bool LoopImage::remount_read_only() { return run_command("mount -o remount,ro " + mounted_.string()); }

bool mount_overlay(const std::filesystem::path& lower, const std::filesystem::path& upper,
                   const std::filesystem::path& work, const std::filesystem::path& mounted) {
  const std::string options =
      fmt::format("lowerdir={},upperdir={},workdir={}", lower.string(), upper.string(), work.string());
  return ::mount("overlay", mounted.c_str(), "overlay", 0, options.c_str()) == 0;
}

void unmount(const std::filesystem::path& mounted) { (void)::umount2(mounted.c_str(), MNT_DETACH); }

}  // namespace penstock::test
