// SPDX-License-Identifier: Apache-2.0
#include "service/cli/client_text.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock {
namespace {

std::string text_of_clients(const char* json) { return clients_text(Json::parse(json), "", ""); }

TEST(ClientText, ShowsALineAKindAndADashForWhatNobodyMeasures) {
  const std::string text = text_of_clients(R"([{"id": 3, "pid": 42, "name": "ComfyUI", "state": "ready",
    "kinds": {"weights": {"devices": {"host": 1048576, "cuda-0123abcd": 1048576}, "disk_bytes": 0},
              "other": {"anonymous_bytes": 1024}},
    "process": {"anonymous_bytes": 2048, "swapped_bytes": 0}}])");
  EXPECT_NE(text.find("3        weights        2.0 MiB          -          -          -        0 B\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("3        other                -          -    1.0 KiB"), std::string::npos) << text;
  EXPECT_NE(text.find("3        (process)            -          -    2.0 KiB"), std::string::npos) << text;
  EXPECT_EQ(text.find("work"), std::string::npos);
  EXPECT_EQ(text.find("(swapped)"), std::string::npos);
}

TEST(ClientText, TellsWhatOfTheSwappedIsCompressedAndWhatIsOnADisk) {
  const std::string text = text_of_clients(R"([{"id": 3,
    "process": {"swapped_bytes": 4096, "compressed_bytes": 4096, "on_disk_bytes": 0}}])");
  EXPECT_NE(text.find("4.0 KiB in all, 4.0 KiB compressed"), std::string::npos) << text;
}

TEST(ClientText, ClientsThatTellNothingMakeNoSecondTable) {
  EXPECT_EQ(text_of_clients(R"([{"id": 3, "name": "a"}])").find("kind"), std::string::npos);
  EXPECT_EQ(text_of_clients("[]"), "");
  EXPECT_NO_THROW(
      text_of_clients(R"([{"id": 3, "kinds": {"weights": 5, "work": {"devices": {"host": "x"}}}}])"));
}

}  // namespace
}  // namespace penstock
