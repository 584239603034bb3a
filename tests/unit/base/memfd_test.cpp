// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/memfd.hpp"

#include <cstdint>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock {
namespace {

TEST(Memfd, CanNeitherShrinkNorGrow) {
  const UniqueFd file = *create_memfd("test", 8192);
  EXPECT_EQ(*size_of(file.get()), 8192u);
  EXPECT_NE(::ftruncate(file.get(), 4096), 0);
  EXPECT_NE(::ftruncate(file.get(), 16384), 0);
  EXPECT_EQ(*seals_of(file.get()), F_SEAL_SHRINK | F_SEAL_GROW);
}

TEST(Memfd, RefusesMoreSealsAfterTheLastOne) {
  const UniqueFd file = *create_memfd("test", 4096);
  ASSERT_TRUE(add_seals(file.get(), F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
  const auto late = add_seals(file.get(), F_SEAL_WRITE);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::denied);
}

TEST(Memfd, TellsAnOrdinaryDescriptorFromAMemfd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const auto seals = seals_of(reader.get());
  ASSERT_FALSE(seals);
  EXPECT_EQ(seals.error().code, Errc::invalid);
  EXPECT_FALSE(size_of(-1));
}

TEST(Memfd, RefusesASizeThatNoFileHas) { EXPECT_FALSE(create_memfd("test", UINT64_MAX)); }

}  // namespace
}  // namespace penstock
