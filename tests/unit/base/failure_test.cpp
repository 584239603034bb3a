// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/failure.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {
namespace {

TEST(Failure, KindsHaveDistinctNamesInSnakeCase) {
  std::set<std::string> names;
  int count = 0;
  for (int value = 0; value <= static_cast<int>(FailureKind::internal); ++value, ++count) {
    const std::string name(failure_kind_name(static_cast<FailureKind>(value)));
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
    names.insert(name);
  }
  EXPECT_EQ(static_cast<int>(names.size()), count);
  EXPECT_EQ(failure_kind_name(FailureKind::lfs_pointer), "lfs_pointer");
}

Result<int> twice(Result<int> input) { return 2 * TRY(std::move(input)); }

TEST(Result, TryPassesValuesAndErrorsOn) {
  EXPECT_EQ(*twice(21), 42);
  const Error error{Errc::io, 5, "read"};
  EXPECT_EQ(twice(error).error(), error);
}

TEST(CheckDeathTest, StopsWithTheConditionInTheText) {
  EXPECT_DEATH(CHECK(1 + 1 == 3), "CHECK\\(1 \\+ 1 == 3\\)");
}

}  // namespace
}  // namespace penstock
