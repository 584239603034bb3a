// SPDX-License-Identifier: Apache-2.0
// The configuration's files, read whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/failure.hpp"

namespace penstock {

// nullopt: there is no such file. Anything but a readable regular file of at most config_bytes_max bytes is a
// failure. A file whose mode lets nobody read is refused to root as well, so that the verdict doesn't depend
// on who asks.
Outcome<std::optional<std::string>> read_config_file(const std::string& path);

// Paths of DIRECTORY/*.toml in the order of their names' bytes, hidden ones left out. No directory: none.
Outcome<std::vector<std::string>> list_drop_ins(const std::string& directory);

}  // namespace penstock
