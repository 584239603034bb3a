// SPDX-License-Identifier: Apache-2.0
// A parser of Prometheus' text format 0.0.4 that accepts nothing but what a correct page holds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::test {

struct PageFamily {
  std::string type, help;
  std::map<std::string, double> samples;  // "name{a=\"b\"}" as written, to its value.
  std::vector<std::map<std::string, std::string>>
      labels;  // Unescaped, one map a sample, in the order of the page.
};

class StrictPage {
 public:
  explicit StrictPage(std::string_view text);

  // Empty when the page is correct.
  const std::string& error() const { return error_; }
  const std::map<std::string, PageFamily>& families() const { return families_; }
  // The value of a series as written; nullopt when there is none.
  std::optional<double> value(std::string_view series) const;
  bool has(std::string_view family) const { return families_.contains(std::string(family)); }

 private:
  bool parse_family(std::vector<std::string_view>& lines);
  bool parse_sample(const std::string& family, std::string_view line, PageFamily& into);
  bool parse_labels(std::string_view& rest, std::map<std::string, std::string>& labels);
  bool check_histogram(const std::string& family, const PageFamily& parsed);
  bool fail(std::string_view why, std::string_view line);

  std::string error_;
  std::map<std::string, PageFamily> families_;
};

bool is_valid_utf8(std::string_view text);

}  // namespace penstock::test
