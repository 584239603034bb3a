// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/callers.hpp"

#include <errno.h>
#include <pthread.h>

#include <algorithm>

#include "tests/fakes/engine/die.hpp"

namespace penstock::fake {

Callers::Callers(std::string_view rule) {
  const std::size_t colon = rule.find(':');
  if (colon == std::string_view::npos)
    die("'%.*s': expected PROGRAM:THREAD,THREAD", static_cast<int>(rule.size()), rule.data());
  are_limited_ = rule.substr(0, colon) == ::program_invocation_short_name;
  std::string_view rest = rule.substr(colon + 1);
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    threads_.emplace_back(name);
  }
}

void Callers::check(const char* call) const {
  if (!are_limited_) return;
  char name[16] = "";
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  if (std::find(threads_.begin(), threads_.end(), name) == threads_.end())
    die("%s: thread '%s' of %s must not enter the driver", call, name, ::program_invocation_short_name);
}

}  // namespace penstock::fake
