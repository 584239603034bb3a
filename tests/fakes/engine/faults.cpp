// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/faults.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "tests/fakes/engine/die.hpp"

namespace penstock::fake {

FaultPlan& FaultPlan::instance() {
  static FaultPlan* const plan = [] {
    auto made = std::make_unique<FaultPlan>();
    if (const char* text = std::getenv("PENSTOCK_FAKE_FAULTS")) made->load(text);
    return made.release();
  }();
  return *plan;
}

FaultPlan::Rule FaultPlan::parse(std::string_view text) {
  const auto bad = [&]() {
    die("fault '%.*s': expected NAME:ACTION[@COUNT[+]]", static_cast<int>(text.size()), text.data());
  };
  const auto number = [&](std::string_view digits) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) bad();
    return value;
  };
  Rule rule;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) bad();
  rule.name = text.substr(0, colon);
  std::string_view action = text.substr(colon + 1);
  if (const std::size_t at = action.find('@'); at != std::string_view::npos) {
    std::string_view when = action.substr(at + 1);
    const bool on = when.ends_with('+');
    if (on) when.remove_suffix(1);
    rule.first = number(when);
    if (!on) rule.last = rule.first;
    action = action.substr(0, at);
  }
  if (action == "hang") {
    rule.fault.kind = Fault::Kind::hang;
  } else if (action == "kill") {
    rule.fault.kind = Fault::Kind::kill;
  } else {
    rule.fault.kind = action.ends_with('!')   ? Fault::Kind::kills_context
                      : action.ends_with('~') ? Fault::Kind::late_answer
                                              : Fault::Kind::answer;
    if (rule.fault.kind != Fault::Kind::answer) action.remove_suffix(1);
    rule.fault.code = static_cast<int>(number(action));
  }
  return rule;
}

void FaultPlan::load(std::string_view text) {
  std::vector<Rule> rules;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!word.empty()) rules.push_back(parse(word));
  }
  const std::scoped_lock lock(mutex_);
  rules_ = std::move(rules);
  counts_.clear();
}

Fault FaultPlan::next(std::string_view name) {
  Fault fault;
  {
    const std::scoped_lock lock(mutex_);
    const std::uint64_t count = ++counts_.try_emplace(std::string(name), 0).first->second;
    for (const Rule& rule : rules_) {
      if ((rule.name == name || rule.name == "*") && count >= rule.first && count <= rule.last)
        fault = rule.fault;
    }
  }
  if (fault.kind == Fault::Kind::kill) ::kill(::getpid(), SIGKILL);
  while (fault.kind == Fault::Kind::hang || fault.kind == Fault::Kind::kill) ::pause();
  return fault;
}

std::uint64_t FaultPlan::count(std::string_view name) {
  const std::scoped_lock lock(mutex_);
  const auto found = counts_.find(name);
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace penstock::fake
