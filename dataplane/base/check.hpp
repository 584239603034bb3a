// SPDX-License-Identifier: Apache-2.0
// Always-on assertion of an invariant. A broken invariant is a bug: stop before it spreads.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) [[unlikely]] {                                              \
      std::fprintf(stderr, "%s:%d: CHECK(%s)\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                               \
    }                                                                             \
  } while (false)
