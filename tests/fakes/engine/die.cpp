// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/die.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace penstock::fake {

void die(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "fake driver: %s\n", text);
  std::abort();
}

}  // namespace penstock::fake
