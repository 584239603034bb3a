// SPDX-License-Identifier: Apache-2.0
// KernelBtf: the running kernel's type information, asked for what probe plans need.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bpf/probe_plan.hpp"
#include "dataplane/base/result.hpp"

struct btf;

namespace penstock {

class KernelBtf {
 public:
  static Result<KernelBtf> load();

  // Answers for as long as this object lives.
  KernelSymbols symbols() const;

 private:
  struct Free {
    void operator()(btf* types) const;
  };
  explicit KernelBtf(btf* types) : types_(types) {}
  std::optional<std::string> first_argument(const std::string& tracepoint) const;
  std::string type_name(std::uint32_t type) const;

  std::unique_ptr<btf, Free> types_;
};

}  // namespace penstock
