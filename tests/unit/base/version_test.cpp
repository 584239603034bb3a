// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/version.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Version, IsTheOneOfTheBuild) { EXPECT_EQ(project_version, PENSTOCK_PROJECT_VERSION); }

}  // namespace
}  // namespace penstock
