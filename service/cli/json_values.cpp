// SPDX-License-Identifier: Apache-2.0
#include "service/cli/json_values.hpp"

namespace penstock {

std::optional<std::uint64_t> find_number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  if (found->is_number_float()) return static_cast<std::uint64_t>(found->get<double>());
  return found->get<std::uint64_t>();
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const Json& list_of(const Json& object, const char* key) {
  static const Json empty = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : empty;
}

Json object_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : Json::object();
}

}  // namespace penstock
