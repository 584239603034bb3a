// SPDX-License-Identifier: Apache-2.0
// IdTable: a bounded table whose ids are not used again when an entry goes, so that a stale id is noticed.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dataplane/base/check.hpp"

namespace penstock {

// An id is (times this place was used, place): 20 and 12 bits. `Id` is an enum class over uint32_t.
template <class Id, class Value>
class IdTable {
 public:
  static constexpr std::uint32_t places_max = 1u << 12;

  explicit IdTable(std::uint32_t places) : places_(places) {
    CHECK(places > 0 && places <= places_max);
    free_.reserve(places);
    for (std::uint32_t place = places; place-- > 0;) free_.push_back(place);
  }

  // Empty when the table is full.
  std::optional<Id> add(Value value) {
    if (free_.empty()) return std::nullopt;
    const std::uint32_t place = free_.back();
    free_.pop_back();
    places_[place].value.emplace(std::move(value));
    ++count_;
    return id_of(place);
  }
  void remove(Id id) {
    CHECK(find(id) != nullptr);
    const std::uint32_t place = place_of(id);
    places_[place].value.reset();
    ++places_[place].uses;
    free_.push_back(place);
    --count_;
  }
  Value* find(Id id) {
    const std::uint32_t place = place_of(id);
    if (place >= places_.size() || !places_[place].value || id_of(place) != id) return nullptr;
    return &*places_[place].value;
  }
  // REQUIRES: the id is in the table.
  Value& at(Id id) {
    Value* const value = find(id);
    CHECK(value != nullptr);
    return *value;
  }
  template <class Visit>
  void for_each(Visit visit) {
    for (std::uint32_t place = 0; place < places_.size(); ++place) {
      if (places_[place].value) visit(id_of(place), *places_[place].value);
    }
  }

  static constexpr std::uint32_t place_of(Id id) { return static_cast<std::uint32_t>(id) % places_max; }
  std::uint32_t size() const { return count_; }

 private:
  struct Place {
    std::optional<Value> value;
    std::uint32_t uses = 0;
  };
  Id id_of(std::uint32_t place) const { return Id{places_[place].uses * places_max + place}; }

  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
  std::uint32_t count_ = 0;
};

}  // namespace penstock
