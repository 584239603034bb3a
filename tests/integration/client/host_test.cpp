// SPDX-License-Identifier: Apache-2.0
// The library against the real service: what has nothing to do with the kind of device.
#include <cstring>
#include <filesystem>
#include <iterator>

#include <gtest/gtest.h>

#include "tests/integration/client/served.hpp"
#include "tests/support/eventually.hpp"

namespace penstock::test {
namespace {

class ServedFromHost : public Served {};

TEST_F(ServedFromHost, AssembledTablesThatNobodyHasOpenAreForgotten) {
  start();
  const std::string file = write("m.safetensors", 1);
  Client client(service->socket());
  ASSERT_EQ(pst_open(client.client, file.c_str(), &client.checkpoint), PST_DONE) << client.error();
  const auto descriptors = [&] {
    const auto folder = "/proc/" + std::to_string(service->pid()) + "/fd";
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  const auto before = descriptors();
  for (std::uint64_t offset = 0; offset < 300; ++offset) {
    const pst_manifest_entry entry{0, offset, 16,   0,
                                   0, "U8",   "U8", UINT64_MAX};  // Another content each time.
    ASSERT_EQ(pst_table_assemble(client.client, &client.checkpoint, 1, &entry, 1, nullptr, &client.table),
              PST_DONE)
        << client.error();
    pst_table_close(client.table);
  }
  // Of 300 tables those stay that the registry keeps; frames that are made ahead and the client's cgroup come and go.
  EXPECT_TRUE(eventually([&] { return descriptors() <= before + 64 + 64; }))
      << before << " descriptors, then " << descriptors();
}

TEST_F(ServedFromHost, BooksWorkAndHostBuffers) {
  start();
  Client client(service->socket());
  pst_demand demand{};
  demand.size = sizeof demand;
  demand.work_bytes = 8 * mib;
  demand.timeout_ns = 10 * second;
  pst_grant* grant = nullptr;
  ASSERT_EQ(pst_admit(client.client, &demand, &grant), PST_DONE) << client.error();
  EXPECT_EQ(pst_grant_work_bytes(grant), 8 * mib);
  pst_grant_release(grant);
  demand.work_bytes = UINT64_MAX / 4;
  EXPECT_EQ(pst_admit(client.client, &demand, &grant), PST_NEVER_FITS) << client.error();
  pst_host_buffer* buffer = nullptr;
  ASSERT_EQ(pst_host_buffer_create(client.client, 4 * mib, &buffer), PST_DONE) << client.error();
  std::memset(pst_host_buffer_address(buffer), 3, 4 * mib);
  ASSERT_EQ(pst_host_buffer_truncate(buffer, mib), PST_DONE) << client.error();
  EXPECT_EQ(static_cast<std::uint8_t*>(pst_host_buffer_address(buffer))[mib - 1], 3);
  pst_host_buffer_close(buffer);
}

TEST_F(ServedFromHost, OneTableIsFreedFromItsEndAndNoOther) {
  start();
  Client client(service->socket());
  pst_table* other = nullptr;
  ASSERT_EQ(pst_table_anonymous(client.client, 3 * page, nullptr, &client.table), PST_DONE) << client.error();
  ASSERT_EQ(pst_table_anonymous(client.client, 2 * page, nullptr, &other), PST_DONE) << client.error();
  ASSERT_EQ(client.pin(0, 3 * page), PST_DONE) << client.error();
  ASSERT_EQ(pst_fault(other, 0, 2 * page, 10 * second), PST_DONE) << client.error();
  ASSERT_EQ(client.unpin(page, 2 * page), PST_DONE);
  ASSERT_EQ(pst_unpin(other, 0, 2 * page, nullptr), PST_DONE);
  std::uint64_t freed = 0;
  ASSERT_EQ(pst_table_free(client.table, 1, 10 * second, &freed), PST_DONE);
  EXPECT_EQ(freed, page);
  std::uint64_t serials[3] = {};
  std::size_t count = 0;
  ASSERT_EQ(pst_serials(client.table, 0, 3 * page, serials, 3, &count), PST_DONE);
  EXPECT_NE(serials[1], 0u);
  EXPECT_EQ(serials[2], 0u);
  ASSERT_EQ(pst_table_free(client.table, UINT64_MAX, 10 * second, &freed), PST_DONE);
  EXPECT_EQ(freed, page);  // The first is pinned.
  pst_residency residency{};
  residency.size = sizeof residency;
  ASSERT_EQ(pst_table_residency(other, &residency), PST_DONE);
  EXPECT_EQ(residency.mapped_bytes, 2 * page);
  pst_table_close(other);
}

}  // namespace
}  // namespace penstock::test
