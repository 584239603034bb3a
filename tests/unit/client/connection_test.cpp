// SPDX-License-Identifier: Apache-2.0
// The control socket: greeting, requests and answers, events, admission, host buffers, questions.
#include "tests/unit/client/scripted_client.hpp"

#include <atomic>
#include <cstring>
#include <vector>

#include <poll.h>

#include "tests/support/eventually.hpp"

namespace penstock::test {
namespace {

class Connection : public ScriptedClient {
 protected:
  using Answer = std::optional<wire::ServiceMessage>;

  pst_status try_connect(const char* path) {
    pst_connect_options options{};
    options.size = sizeof options;
    options.socket = path;
    options.connect_timeout_ns = second / 2;
    return pst_connect(&options, &client);
  }
  // Answers requests of one type with a failure.
  template <class Message>
  void refuse(FailureKind kind) {
    service.on_request = [kind](std::uint64_t, const wire::ClientMessage& message) -> Answer {
      if (!std::holds_alternative<Message>(message)) return wire::Done{};
      return Failure{kind, "because of 7 bytes", "try 8"};
    };
  }
  pst_event next_event() {
    pst_event event{};
    event.size = sizeof event;
    EXPECT_TRUE(eventually([&] { return pst_next_event(client, &event) == PST_DONE; }));
    return event;
  }
};

TEST_F(Connection, TellsWhoItIsAndWhatTheServiceHas) {
  connect();
  const auto hello = service.asked<wire::Hello>();
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->name, "a test");
  EXPECT_TRUE(hello->events);
  EXPECT_EQ(pst_session_id(client), 7u);
  std::uint32_t count = 0;
  ASSERT_EQ(pst_device_count(client, &count), PST_DONE);
  EXPECT_EQ(count, 1u);
  pst_device device{};
  device.size = sizeof device;
  ASSERT_EQ(pst_device_at(client, 0, &device), PST_DONE);
  EXPECT_STREQ(device.id, "host");
  EXPECT_STREQ(device.kind, "host");
  EXPECT_EQ(device.page_bytes, page_bytes);
  EXPECT_EQ(pst_device_at(client, 1, &device), PST_NOT_FOUND);
}

TEST_F(Connection, AStructOfAnOlderCallerIsFilledOnlyAsFarAsItGoes) {
  connect();
  pst_device device{};
  std::memset(&device, 0x55, sizeof device);
  device.size = offsetof(pst_device, page_bytes);
  ASSERT_EQ(pst_device_at(client, 0, &device), PST_DONE);
  EXPECT_STREQ(device.id, "host");
  EXPECT_EQ(device.page_bytes, 0x5555555555555555u);
  EXPECT_EQ(device.size, offsetof(pst_device, page_bytes));
  device.size = 0;
  EXPECT_EQ(pst_device_at(client, 0, &device), PST_INVALID_ARGUMENT);
}

TEST_F(Connection, NoServiceIsUnreachableWithAHint) {
  EXPECT_EQ(try_connect((folder / "nobody").c_str()), PST_UNREACHABLE);
  EXPECT_NE(std::string(pst_last_error(nullptr)).find("nobody"), std::string::npos);
  EXPECT_NE(std::string(pst_last_hint(nullptr)).find("penstockd"), std::string::npos);
  EXPECT_EQ(try_connect(std::string(200, 'x').c_str()), PST_INVALID_ARGUMENT);
}

TEST_F(Connection, AnotherProtocolIsRefusedWithBothNumbers) {
  service.protocol = 77;
  EXPECT_EQ(try_connect(service.path().c_str()), PST_PROTOCOL_MISMATCH);
  const std::string text = pst_last_error(nullptr);
  EXPECT_NE(text.find("77"), std::string::npos);
  EXPECT_NE(text.find(std::to_string(+PSTW_PROTOCOL)), std::string::npos);
}

TEST_F(Connection, AServiceThatDoesNotGreetIsUnreachable) {
  service.on_request = [](std::uint64_t, const wire::ClientMessage&) -> Answer { return std::nullopt; };
  EXPECT_EQ(try_connect(service.path().c_str()), PST_UNREACHABLE);
}

TEST_F(Connection, AFailureKeepsItsKindTextAndHint) {
  refuse<wire::OpenCheckpoint>(FailureKind::lfs_pointer);
  connect();
  const std::string file = folder.write("x.safetensors", "version https://git-lfs");
  EXPECT_EQ(pst_open(client, file.c_str(), &checkpoint), PST_LFS_POINTER);
  EXPECT_STREQ(pst_last_error(client), "because of 7 bytes");
  EXPECT_STREQ(pst_last_hint(client), "try 8");
  EXPECT_EQ(checkpoint, nullptr);
  // Another thread has had no failure.
  std::thread([&] { EXPECT_STREQ(pst_last_error(client), ""); }).join();
}

TEST_F(Connection, WhatIsNoFileIsRefusedHere) {
  connect();
  EXPECT_EQ(pst_open(client, (folder / "absent").c_str(), &checkpoint), PST_NOT_FOUND);
  EXPECT_EQ(pst_open(client, folder.path().c_str(), &checkpoint), PST_NOT_BUILT);
  EXPECT_EQ(pst_open(client, "/dev/null", &checkpoint), PST_NOT_A_FILE);
  EXPECT_EQ(pst_open_fd(client, -1, nullptr, &checkpoint), PST_INVALID_ARGUMENT);
}

TEST_F(Connection, TheIndexIsReadAndTensorsAreFoundByName) {
  open_checkpoint();
  pst_checkpoint_info info{};
  info.size = sizeof info;
  ASSERT_EQ(pst_checkpoint_describe(checkpoint, &info), PST_DONE);
  EXPECT_STREQ(info.id, "0123456789ab");
  EXPECT_STREQ(info.format, "safetensors");
  EXPECT_EQ(info.tensors, 2u);
  EXPECT_EQ(info.handle, 1u);
  std::uint32_t index = 0;
  ASSERT_EQ(pst_tensor_find(checkpoint, "a.weight", &index), PST_DONE);
  pst_tensor tensor{};
  tensor.size = sizeof tensor;
  ASSERT_EQ(pst_tensor_at(checkpoint, index, &tensor), PST_DONE);
  EXPECT_STREQ(tensor.name, "a.weight");
  EXPECT_STREQ(tensor.dtype, "BF16");
  ASSERT_EQ(tensor.rank, 1u);
  EXPECT_EQ(tensor.shape[0], 100u);
  EXPECT_EQ(pst_tensor_find(checkpoint, "c", &index), PST_NOT_FOUND);
  const char* key = nullptr;
  const char* value = nullptr;
  ASSERT_EQ(pst_metadata_at(checkpoint, 0, &key, &value), PST_DONE);
  EXPECT_STREQ(value, "pt");
  open();
  std::uint64_t offset = 0, length = 0;
  ASSERT_EQ(pst_table_tensor(table, index, &offset, &length), PST_DONE);
  EXPECT_EQ(offset, tensor.offset);
  EXPECT_EQ(length, tensor.bytes);
}

TEST_F(Connection, ACheckpointIsClosedAfterItsTables) {
  open();
  pst_close(checkpoint);
  pst_table_close(table);
  EXPECT_EQ(service.asked<wire::CloseTable>()->table, service.table().number);
  EXPECT_EQ(service.asked<wire::CloseCheckpoint>()->checkpoint, 1u);
}

TEST_F(Connection, AnswersOfSeveralThreadsFindTheirOwner) {
  connect();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string mine = "{\"n\":" + std::to_string(t * 1000 + i) + "}";
        char* answer = nullptr;
        if (pst_query(client, "status", mine.c_str(), &answer) != PST_DONE || mine != answer) ++wrong;
        pst_release_text(answer);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Connection, NoMoreRequestsThanAllowedAreUnanswered) {
  std::mutex mutex;
  std::vector<std::uint64_t> held;
  service.on_request = [&](std::uint64_t request, const wire::ClientMessage& message) -> Answer {
    if (!std::holds_alternative<wire::Query>(message)) return wire::Done{};
    const std::lock_guard lock(mutex);
    held.push_back(request);
    return std::nullopt;
  };
  connect();
  std::vector<std::future<pst_status>> queries;
  for (int i = 0; i < PSTW_REQUESTS_MAX + 3; ++i) {
    queries.push_back(std::async(std::launch::async, [&] {
      char* answer = nullptr;
      const pst_status status = pst_query(client, "status", "{}", &answer);
      pst_release_text(answer);
      return status;
    }));
  }
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return held.size();
  };
  EXPECT_TRUE(eventually([&] { return count() == PSTW_REQUESTS_MAX; }));
  // Answered in the reverse order; each answer makes room for one more.
  for (int i = 0; i < PSTW_REQUESTS_MAX + 3; ++i) {
    std::uint64_t request = 0;
    ASSERT_TRUE(eventually([&] { return count() > 0; }));
    {
      const std::lock_guard lock(mutex);
      request = held.back();
      held.pop_back();
    }
    service.send(request, wire::QueryReply{.json = "{}"});
  }
  for (auto& query : queries) EXPECT_EQ(query.get(), PST_DONE);
}

TEST_F(Connection, AnUnknownQuestionAndATooLongOneAreRefusedHere) {
  connect();
  char* answer = nullptr;
  EXPECT_EQ(pst_query(client, "gossip", nullptr, &answer), PST_INVALID_ARGUMENT);
  EXPECT_EQ(answer, nullptr);
  EXPECT_EQ(pst_query(client, "status", std::string(70000, ' ').c_str(), &answer), PST_INVALID_ARGUMENT);
}

TEST_F(Connection, EventsWakeTheDescriptor) {
  connect();
  service.send(0, wire::Pressure{.level = wire::PressureLevel::some, .device = 0, .excess_bytes = 42});
  pollfd one{pst_event_fd(client), POLLIN, 0};
  ASSERT_EQ(::poll(&one, 1, 20000), 1);
  const pst_event event = next_event();
  EXPECT_EQ(event.kind, std::uint32_t{PST_EVENT_PRESSURE});
  EXPECT_EQ(event.level, 1u);
  EXPECT_EQ(event.wanted_bytes, 42u);
  EXPECT_EQ(::poll(&one, 1, 0), 0);
  pst_event none{};
  none.size = sizeof none;
  EXPECT_EQ(pst_next_event(client, &none), PST_NOT_FOUND);
  service.send(0, wire::Closing{});
  EXPECT_EQ(next_event().kind, std::uint32_t{PST_EVENT_CLOSING});
}

TEST_F(Connection, ACallbackMayCallTheLibrary) {
  struct Heard {
    std::atomic<pst_client*> client = nullptr;
    std::promise<std::string> answer;
  } heard;
  pst_connect_options options{};
  options.size = sizeof options;
  options.socket = service.path().c_str();
  options.event_delivery = PST_EVENTS_CALLBACK;
  options.callback_context = &heard;
  options.callback = [](const pst_event* event, void* context) {
    auto& to = *static_cast<Heard*>(context);
    if (event->kind != PST_EVENT_PRESSURE) return;
    char* answer = nullptr;
    pst_query(to.client, "status", "{\"from\":\"callback\"}", &answer);
    to.answer.set_value(answer);
    pst_release_text(answer);
  };
  ASSERT_EQ(pst_connect(&options, &client), PST_DONE);
  heard.client = client;
  EXPECT_EQ(pst_event_fd(client), -1);
  service.send(0, wire::Pressure{});
  EXPECT_EQ(heard.answer.get_future().get(), "{\"from\":\"callback\"}");
  options.callback = nullptr;
  pst_client* other = nullptr;
  EXPECT_EQ(pst_connect(&options, &other), PST_INVALID_ARGUMENT);
}

TEST_F(Connection, AdmissionBooksAndReleases) {
  connect();
  pst_demand demand{};
  demand.size = sizeof demand;
  demand.work_bytes = 100;
  demand.minimum_work_bytes = 10;
  demand.timeout_ns = second;
  pst_grant* grant = nullptr;
  ASSERT_EQ(pst_admit(client, &demand, &grant), PST_DONE);
  EXPECT_EQ(pst_grant_work_bytes(grant), 100u);
  EXPECT_EQ(service.asked<wire::Admit>()->minimum_work_bytes, 10u);
  pst_grant_release(grant);
  EXPECT_EQ(service.asked<wire::ReleaseGrant>()->grant, 5u);
  demand.minimum_work_bytes = 101;
  EXPECT_EQ(pst_admit(client, &demand, &grant), PST_INVALID_ARGUMENT);
}

TEST_F(Connection, ARefusedAdmissionSaysWhy) {
  refuse<wire::Admit>(FailureKind::foreign_usage);
  connect();
  pst_demand demand{};
  demand.size = sizeof demand;
  pst_grant* grant = nullptr;
  EXPECT_EQ(pst_admit(client, &demand, &grant), PST_FOREIGN_USAGE);
}

TEST_F(Connection, AHostBufferIsWrittenCutAndFreed) {
  connect();
  pst_host_buffer* buffer = nullptr;
  ASSERT_EQ(pst_host_buffer_create(client, 3 * 4096, &buffer), PST_DONE);
  auto* const content = static_cast<char*>(pst_host_buffer_address(buffer));
  content[2 * 4096] = 1;
  EXPECT_EQ(pst_host_buffer_truncate(buffer, 4 * 4096), PST_INVALID_ARGUMENT);
  ASSERT_EQ(pst_host_buffer_truncate(buffer, 5000), PST_DONE);
  EXPECT_EQ(service.asked<wire::TruncateBuffer>()->bytes, 5000u);
  EXPECT_EQ(pst_host_buffer_bytes(buffer), 5000u);
  EXPECT_EQ(pst_host_buffer_address(buffer), content);
  content[4999] = 1;
  pst_host_buffer_close(buffer);
  EXPECT_EQ(service.asked<wire::FreeBuffer>()->buffer, 3u);
}

TEST_F(Connection, AHostBufferGrowsAtItsAddressPieceByPiece) {
  connect();
  pst_host_buffer* buffer = nullptr;
  ASSERT_EQ(pst_host_buffer_reserve(client, 64 * 4096, &buffer), PST_DONE);
  auto* const content = static_cast<char*>(pst_host_buffer_address(buffer));
  EXPECT_EQ(pst_host_buffer_bytes(buffer), 0u);
  ASSERT_EQ(pst_host_buffer_grow(buffer, 5000), PST_DONE);
  EXPECT_EQ(service.asked<wire::CreateBuffer>()->bytes, 5000u);  // The first that is asked for.
  content[4999] = 1;
  ASSERT_EQ(pst_host_buffer_grow(buffer, 3 * 4096), PST_DONE);
  EXPECT_EQ(service.asked<wire::CreateBuffer>()->bytes, 4096u);  // What the first piece's pages don't hold.
  content[3 * 4096 - 1] = 2;
  EXPECT_EQ(content[4999], 1);
  EXPECT_EQ(pst_host_buffer_address(buffer), content);
  EXPECT_EQ(pst_host_buffer_grow(buffer, 65 * 4096), PST_INVALID_ARGUMENT);
  EXPECT_EQ(pst_host_buffer_grow(buffer, 1), PST_INVALID_ARGUMENT);
  ASSERT_EQ(pst_host_buffer_truncate(buffer, 4096), PST_DONE);
  EXPECT_TRUE(service.asked<wire::FreeBuffer>());
  EXPECT_EQ(service.asked<wire::TruncateBuffer>()->bytes, 4096u);
  ASSERT_EQ(pst_host_buffer_grow(buffer, 2 * 4096), PST_DONE);
  content[2 * 4096 - 1] = 3;
  pst_host_buffer_close(buffer);
}

TEST_F(Connection, GarbageFromTheServiceFailsWhatWaitsAndIsLeftBehind) {
  service.on_request = [](std::uint64_t, const wire::ClientMessage& message) -> Answer {
    if (std::holds_alternative<wire::Admit>(message)) return std::nullopt;
    return wire::Done{};
  };
  connect();
  auto admitted = std::async(std::launch::async, [&] {
    pst_demand demand{};
    demand.size = sizeof demand;
    demand.timeout_ns = 20 * second;
    pst_grant* grant = nullptr;
    return pst_admit(client, &demand, &grant);
  });
  ASSERT_TRUE(service.asked<wire::Admit>());
  service.send_raw(std::vector<std::byte>(100, std::byte{0x5a}));
  EXPECT_EQ(admitted.get(), PST_PROTOCOL_VIOLATION);
  EXPECT_EQ(next_event().kind, std::uint32_t{PST_EVENT_DISCONNECTED});
  char* answer = nullptr;
  EXPECT_EQ(pst_query(client, "status", "{}", &answer), PST_DONE) << error();
  pst_release_text(answer);
  EXPECT_EQ(next_event().kind, std::uint32_t{PST_EVENT_RECONNECTED});
}

TEST_F(Connection, NullPointersAreRefused) {
  EXPECT_EQ(pst_connect(nullptr, nullptr), PST_INVALID_ARGUMENT);
  EXPECT_EQ(pst_fault(nullptr, 0, 0, 0), PST_INVALID_ARGUMENT);
  EXPECT_EQ(pst_run_revokes(nullptr), PST_INVALID_ARGUMENT);
  pst_disconnect(nullptr);
  pst_close(nullptr);
  pst_table_close(nullptr);
  pst_grant_release(nullptr);
  pst_host_buffer_close(nullptr);
  EXPECT_EQ(pst_event_fd(nullptr), -1);
}

}  // namespace
}  // namespace penstock::test
