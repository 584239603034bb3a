// SPDX-License-Identifier: Apache-2.0
#include "service/control/descriptor_path.hpp"

#include <fmt/format.h>
#include <unistd.h>

namespace penstock {

std::string path_of_descriptor(int fd) {
  char text[4096];
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), text, sizeof text);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

}  // namespace penstock
