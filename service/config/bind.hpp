// SPDX-License-Identifier: Apache-2.0
// Sets a Config from documents, one after the other, and collects every problem on the way.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "service/config/config.hpp"
#include "service/config/document.hpp"
#include "service/config/load.hpp"

namespace penstock {

class ConfigBinder {
 public:
  explicit ConfigBinder(std::span<const RemovedKey> removed) : removed_(removed) {}

  void add(const std::string& file, std::string_view text);
  void add_problem(ConfigProblem problem) { problems_.push_back(std::move(problem)); }
  // Checks what no single key can tell, and ends the binding.
  tl::expected<Config, ConfigProblems> finish();

 private:
  struct Place {
    std::string file;
    unsigned line = 0;
  };

  void bind(const std::string& file, const ConfigEntry& entry);
  void explain_unknown(const std::string& file, const ConfigEntry& entry);
  void check_probes();
  void check_device(std::string_view kind, const DeviceConfig& device, std::uint64_t default_page_bytes);
  void refuse_at(const std::string& key, std::string message);

  std::span<const RemovedKey> removed_;
  Config config_;
  ConfigProblems problems_;
  std::map<std::string, Place, std::less<>> set_at_;  // Where each key was set last.
};

}  // namespace penstock
