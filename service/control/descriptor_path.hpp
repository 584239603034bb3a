// SPDX-License-Identifier: Apache-2.0
// Where a descriptor points, for people to read.
#pragma once

#include <string>

namespace penstock {

// Empty where /proc doesn't say. Asks no filesystem.
std::string path_of_descriptor(int fd);

}  // namespace penstock
