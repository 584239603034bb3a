// SPDX-License-Identifier: Apache-2.0
// A service that is there and does not answer: how long calls wait, and what becomes of answers that come after that.
#include "tests/unit/client/scripted_client.hpp"

#include <atomic>
#include <variant>

namespace penstock::test {
namespace {

class Silence : public ScriptedClient {
 protected:
  Silence() {
    service.on_request = [this](std::uint64_t,
                                const wire::ClientMessage& message) -> std::optional<wire::ServiceMessage> {
      if (silent && !std::holds_alternative<wire::Hello>(message)) return std::nullopt;
      return wire::Done{};  // What has an answer of its own gets that.
    };
  }
  // `answer_timeout_ns` 0: as usual.
  void connect_for(std::uint64_t answer_timeout_ns) {
    pst_connect_options options{};
    options.size = sizeof options;
    const std::string path = service.path();
    options.socket = path.c_str();
    options.connect_timeout_ns = 20 * second;
    options.answer_timeout_ns = answer_timeout_ns;
    ASSERT_EQ(pst_connect(&options, &client), PST_DONE) << pst_last_error(nullptr);
  }
  // After less than a second, as the text says.
  void is_too_late(pst_status status) {
    EXPECT_EQ(status, PST_DEADLINE);
    EXPECT_NE(error().find("did not answer within 0."), std::string::npos) << error();
  }
  pst_status ask() {
    char* answer = nullptr;
    const pst_status status = pst_query(client, "status", "{}", &answer);
    pst_release_text(answer);
    return status;
  }
  pst_status admit(std::uint64_t timeout_ns) {
    pst_demand demand{};
    demand.size = sizeof demand;
    demand.timeout_ns = timeout_ns;
    pst_grant* grant = nullptr;
    return pst_admit(client, &demand, &grant);
  }

  std::atomic<bool> silent = false;
};

TEST_F(Silence, CallsWithoutATimeOfTheirOwnWaitAsLongAsTheOptionsSay) {
  connect_for(second / 10);
  silent = true;
  is_too_late(ask());
  const std::string file = folder.write("model.safetensors", "only its descriptor matters");
  is_too_late(pst_open(client, file.c_str(), &checkpoint));
  is_too_late(pst_table_anonymous(client, page_bytes, nullptr, &table));
  pst_host_buffer* buffer = nullptr;
  is_too_late(pst_host_buffer_create(client, 4096, &buffer));
  std::uint64_t freed = 0;
  is_too_late(pst_free(client, nullptr, 1, 0, &freed));
}

TEST_F(Silence, CallsWithATimeOfTheirOwnWaitSoMuchLonger) {
  connect_for(second / 10);
  silent = true;
  is_too_late(admit(second / 5));
}

TEST_F(Silence, AFaultThatOpensItsTableAgainWaitsForThatNoLongerThanItMay) {
  connect_for(0);
  open();
  service.die();
  ASSERT_EQ(pin(0, 1, second / 10), PST_DISCONNECTED);
  service.come_back();
  ASSERT_EQ(ask(), PST_DONE) << error();  // Connected again.
  silent = true;
  is_too_late(pin(0, 1, second / 10));
  silent = false;
  bring_in(0);
  EXPECT_EQ(byte_of(0), 1);
}

TEST_F(Silence, WhatComesTooLateIsGivenBack) {
  connect_for(second / 10);
  silent = true;
  is_too_late(admit(0));
  const auto cancelled = service.asked<wire::CancelRequest>();
  ASSERT_TRUE(cancelled);
  silent = false;
  service.send(cancelled->cancelled, wire::AdmitReply{.grant = 5, .work_bytes = 7, .waited_ns = 0});
  const auto released = service.asked<wire::ReleaseGrant>();
  ASSERT_TRUE(released);
  EXPECT_EQ(released->grant, 5u);
}

}  // namespace
}  // namespace penstock::test
