// SPDX-License-Identifier: Apache-2.0
// Which known key an unknown one was probably meant to be.
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock {

// Letters to insert, delete, replace, or swap with their neighbour to make one word from the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// Always answers: the least far one. The name weighs more than the section, so that a known key in a wrong
// section is found in its right one.
std::string_view nearest_key(std::string_view unknown);

}  // namespace penstock
