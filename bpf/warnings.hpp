// SPDX-License-Identifier: Apache-2.0
// Warnings: what an operator should hear once, as data. Whoever owns the log takes them from here.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

class Warnings {
 public:
  // A text that was added before is not added again; beyond the bound nothing is.
  void add(std::string text) {
    if (said_.size() < texts_max && said_.insert(text).second) fresh_.push_back(std::move(text));
  }
  // Those added since the last call, in order.
  std::vector<std::string> take() { return std::exchange(fresh_, {}); }

 private:
  static constexpr std::size_t texts_max = 64;

  std::set<std::string> said_;
  std::vector<std::string> fresh_;
};

}  // namespace penstock
