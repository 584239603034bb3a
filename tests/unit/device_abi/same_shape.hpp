// SPDX-License-Identifier: Apache-2.0
// Whether two types of function pointers agree in the number, sizes and kinds of their parameters. Theirs and ours are
// different types by nature; what must be equal is what the calling convention sees.
#pragma once

#include <type_traits>

namespace penstock::test {

template <class A, class B>
constexpr bool same_kind() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
    return std::is_void_v<A> == std::is_void_v<B>;
  } else {
    return sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
           (std::is_integral_v<A> || std::is_enum_v<A>) == (std::is_integral_v<B> || std::is_enum_v<B>);
  }
}

template <class A, class B>
struct SameShape : std::false_type {};
template <class R, class... P, class S, class... Q>
struct SameShape<R (*)(P...), S (*)(Q...)> {
  static constexpr bool parameters() {
    if constexpr (sizeof...(P) == sizeof...(Q)) {
      return (same_kind<P, Q>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = same_kind<R, S>() && parameters();
};
template <class A, class B>
inline constexpr bool same_shape = SameShape<A, B>::value;

// Of enumerators of two enumerations, which compilers warn of when they are compared as they are.
constexpr bool same_value(long long a, long long b) { return a == b; }

}  // namespace penstock::test
