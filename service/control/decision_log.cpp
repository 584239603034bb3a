// SPDX-License-Identifier: Apache-2.0
#include "service/control/decision_log.hpp"

#include <ctime>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace penstock {
namespace {
// Folding keeps one sweep of a big checkpoint from pushing everything else out of the log.
constexpr auto fold_within = std::chrono::seconds(1);
}  // namespace

void DecisionLog::add(Decision decision) {
  if (!entries_.empty()) {
    Decision& last = entries_.back();
    if (last.kind == decision.kind && last.subject == decision.subject && last.reason == decision.reason &&
        decision.time - last.time < fold_within) {
      last.bytes += decision.bytes;
      last.repeated += decision.repeated;
      last.inputs = std::move(decision.inputs);
      return;
    }
  }
  if (entries_.size() == entries_max) entries_.pop_front();
  entries_.push_back(std::move(decision));
}

std::string DecisionLog::to_json(std::string_view subject,
                                 std::chrono::system_clock::time_point since) const {
  auto decisions = nlohmann::json::array();
  for (const Decision& entry : entries_) {
    if (entry.time < since || (!subject.empty() && entry.subject != subject)) continue;
    auto inputs = nlohmann::json::object();
    for (const auto& [name, value] : entry.inputs) inputs[std::string(name)] = value;
    decisions.push_back({{"time", format_time(entry.time)},
                         {"kind", entry.kind},
                         {"subject", entry.subject},
                         {"bytes", entry.bytes},
                         {"reason", entry.reason},
                         {"repeated", entry.repeated},
                         {"inputs", std::move(inputs)}});
  }
  return nlohmann::json{{"decisions", std::move(decisions)}}.dump(-1, ' ', false,
                                                                  nlohmann::json::error_handler_t::replace);
}

std::string format_time(std::chrono::system_clock::time_point time) {
  const auto since_epoch =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = since_epoch / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, since_epoch % 1000);
}

}  // namespace penstock
