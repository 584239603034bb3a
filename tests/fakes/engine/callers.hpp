// SPDX-License-Identifier: Apache-2.0
// Which threads of a program may enter a library whose calls may hang. A call by another one aborts, and says which it
// was: the service's own threads must never wait for a driver, and a call that happens not to hang would not show it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::fake {

class Callers {
 public:
  // Anybody may call.
  Callers() = default;
  // "penstockd:penstock-gpu,penstock-probe": a program's file name, and the names of the threads that may call there.
  // Other programs may call as they like. Dies of a text that is no such rule.
  explicit Callers(std::string_view rule);

  void check(const char* call) const;

 private:
  bool are_limited_ = false;
  std::vector<std::string> threads_;
};

// The rules that hold without any variable, so that no test of the service can forget them: of its threads neither the
// main one nor a device's may call, but those that open a vendor, and each GPU's maker of frames. What tells the usage
// of others has a thread of its own.
inline constexpr std::string_view service_callers = "penstockd:penstock-probe,penstock-gpu";
inline constexpr std::string_view usage_callers = "penstockd:penstock-usage";

}  // namespace penstock::fake
