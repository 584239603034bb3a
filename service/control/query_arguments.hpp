// SPDX-License-Identifier: Apache-2.0
// Arguments of questions: JSON that a client wrote, so that every member may be missing or of another type.
#pragma once

#include <string>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace penstock {

template <class T>
T value_or(const nlohmann::json& object, const char* key, T otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->get<std::string>() : otherwise;
  } else if constexpr (std::is_same_v<T, bool>) {
    return found->is_boolean() ? found->get<bool>() : otherwise;
  } else {
    return found->is_number_unsigned() ? found->get<T>() : otherwise;
  }
}

}  // namespace penstock
