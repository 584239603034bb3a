// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error. The only way a fallible function of the dataplane reports failure.
#pragma once

#include <cstdint>
#include <utility>

#include <tl/expected.hpp>

namespace penstock {

// What a caller may branch on. Add a code only when some caller acts on it.
enum class Errc : std::uint8_t {
  not_found,
  corrupt,
  unsupported,
  exhausted,
  busy,
  io,
  device,
  denied,
  cancelled,
  protocol,
  invalid,
  timeout,
  closed,
};

// Trivially copyable and allocation-free, so hot paths may return it. Text is made at the edge.
struct Error {
  Errc code;
  std::int32_t native = 0;     // errno, CUresult or hipError_t; for the log only.
  const char* operation = "";  // Static string, e.g. "io_uring_submit".

  friend bool operator==(const Error&, const Error&) = default;
};
static_assert(sizeof(Error) == 16);

template <class T = void>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, error) {}
};

namespace detail {
template <class T>
T take(Result<T>&& result) {
  return *std::move(result);
}
inline void take(Result<void>&&) {}
}  // namespace detail

}  // namespace penstock

// Unwraps a Result or returns its Error from the enclosing function. Never inside a coroutine.
#define TRY(expression)                                            \
  __extension__({                                                  \
    auto try_result = (expression);                                \
    if (!try_result) return ::penstock::Error(try_result.error()); \
    ::penstock::detail::take(std::move(try_result));               \
  })
