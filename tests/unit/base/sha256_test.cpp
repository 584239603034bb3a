// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/sha256.hpp"

#include <string_view>

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// FIPS 180-4 example values.
TEST(Sha256, EqualsThePublishedExamples) {
  EXPECT_EQ(to_hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256(bytes_of("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, DoesNotDependOnHowTheBytesArrive) {
  Sha256 hash;
  hash.update(bytes_of("a"));
  hash.update({});
  hash.update(bytes_of("bc"));
  EXPECT_EQ(hash.finish(), sha256(bytes_of("abc")));
  hash.update(bytes_of("x"));
  EXPECT_EQ(hash.finish(), sha256(bytes_of("x")));
}

}  // namespace
}  // namespace penstock
