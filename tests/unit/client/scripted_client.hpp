// SPDX-License-Identifier: Apache-2.0
// A client connected to a scripted service, with one table open.
#pragma once

#include <future>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "service/client/include/penstock.h"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/client/scripted_service.hpp"

namespace penstock::test {

inline constexpr std::uint64_t second = 1'000'000'000;

class ScriptedClient : public ::testing::Test {
 protected:
  ScriptedClient() : service(folder / "socket") {}
  ~ScriptedClient() override { pst_disconnect(client); }

  void connect(bool reconnect = true) {
    pst_connect_options options{};
    options.size = sizeof options;
    const std::string path = service.path();
    options.socket = path.c_str();
    options.name = "a test";
    options.no_reconnect = reconnect ? 0 : 1;
    ASSERT_EQ(pst_connect(&options, &client), PST_DONE) << pst_last_error(nullptr);
  }
  void open_checkpoint() {
    if (client == nullptr) connect();
    const std::string file = folder.write("model.safetensors", "only its descriptor matters");
    ASSERT_EQ(pst_open(client, file.c_str(), &checkpoint), PST_DONE) << pst_last_error(client);
  }
  void open(pst_revoke_mode mode = PST_AGENT, bool copy_on_write = false) {
    if (checkpoint == nullptr) open_checkpoint();
    pst_table_options options{};
    options.size = sizeof options;
    options.mode = mode;
    options.copy_on_write = copy_on_write;
    ASSERT_EQ(pst_table_open(checkpoint, &options, &table), PST_DONE) << pst_last_error(client);
    pst_table_info info{};
    info.size = sizeof info;
    ASSERT_EQ(pst_table_describe(table, &info), PST_DONE);
    bytes = static_cast<const volatile std::uint8_t*>(info.address);
  }
  void open_anonymous(std::uint32_t pages) {
    if (client == nullptr) connect();
    ASSERT_EQ(pst_table_anonymous(client, pages * page_bytes, nullptr, &table), PST_DONE)
        << pst_last_error(client);
    pst_table_info info{};
    info.size = sizeof info;
    ASSERT_EQ(pst_table_describe(table, &info), PST_DONE);
    bytes = static_cast<const volatile std::uint8_t*>(info.address);
  }

  pst_status pin(std::uint32_t first, std::uint32_t count = 1, std::uint64_t timeout_ns = 20 * second) {
    return pst_fault(table, first * page_bytes, count * page_bytes, timeout_ns);
  }
  // On a thread of its own, as it waits for what the test is going to send.
  std::future<pst_status> pin_later(std::uint32_t first, std::uint32_t count = 1,
                                    std::uint64_t timeout_ns = 20 * second) {
    return std::async(std::launch::async, [=, this] { return pin(first, count, timeout_ns); });
  }
  pst_status unpin(std::uint32_t first, std::uint32_t count = 1) {
    return pst_unpin(table, first * page_bytes, count * page_bytes, nullptr);
  }
  // Pins pages that are not mapped, of one generation, and answers for the service.
  void bring_in(std::uint32_t first, std::uint32_t count = 1, std::uint64_t generation = 1) {
    auto pinned = pin_later(first, count);
    const auto fault = service.device().next<PeerFault>();
    service.device().grant(fault.table, first, count, generation, fault.request);
    ASSERT_EQ(pinned.get(), PST_DONE);
    collect_acknowledgement();
  }
  // The client owes it after its fault, and sends it with what it says next.
  void collect_acknowledgement() {
    ASSERT_EQ(pst_prefetch(table, 0, 1, 0, 0), PST_DONE);
    service.device().next<PeerPrefetch>();
    ASSERT_EQ(service.device().acknowledged(), service.device().last_batch());
  }
  std::uint8_t byte_of(std::uint32_t page) const { return bytes[page * page_bytes + 17]; }
  std::string error() const { return pst_last_error(client); }

  TemporaryFolder folder;
  ScriptedService service;
  pst_client* client = nullptr;
  pst_checkpoint* checkpoint = nullptr;
  pst_table* table = nullptr;
  const volatile std::uint8_t* bytes = nullptr;
};

}  // namespace penstock::test
