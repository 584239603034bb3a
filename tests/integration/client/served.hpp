// SPDX-License-Identifier: Apache-2.0
// The library against the real service, on host memory or on the fake GPU that PENSTOCK_TEST_GPU names ("cuda", "hip-7.0"
// and the like). Bytes of a GPU are read and written as programs do it, through its driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "service/client/include/penstock.h"
#include "tests/integration/client/service_process.hpp"

namespace penstock::test {

constexpr std::uint64_t second = 1'000'000'000, mib = 1u << 20, page = 2 * mib;

// The device of this run, as this process reaches it; loaded once.
class RunDevice {
 public:
  static RunDevice& get();
  bool on_gpu() const { return !vendor_.empty(); }
  ServiceOptions service(std::uint64_t capacity) const;
  // Writes where the calling thread's context lets it. False: refused.
  bool write(std::uint8_t* at, std::uint8_t value);

 private:
  RunDevice();
  std::string vendor_;  // Empty: host memory.
};

// A connection with one table of a file.
struct Client {
  explicit Client(const std::string& socket, bool reconnect = true);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { pst_disconnect(client); }

  void open(const std::string& file, pst_revoke_mode mode = PST_AGENT);
  void look();
  pst_status pin(std::uint64_t offset, std::uint64_t count, std::uint64_t timeout = 30 * second) const {
    return pst_fault(table, offset, count, timeout);
  }
  pst_status unpin(std::uint64_t offset, std::uint64_t count) const {
    return pst_unpin(table, offset, count, nullptr);
  }
  // Pinned bytes of the table, as the device has them. On a GPU in a context that the calling thread gets here.
  std::vector<std::uint8_t> read(std::uint64_t offset, std::uint64_t count) const;
  pst_residency residency() const;
  std::string error() const { return pst_last_error(client); }

  pst_client* client = nullptr;
  pst_checkpoint* checkpoint = nullptr;
  pst_table* table = nullptr;
  std::uint8_t* bytes = nullptr;
  std::uint64_t size = 0;
  std::int64_t shift = 0;  // Of the table against its file.
};

class Served : public ::testing::Test {
 protected:
  void SetUp() override;
  void start(std::uint64_t capacity = 256 * mib);
  // A file of `tensors` of a mebibyte and a half each, on no boundary of pages.
  std::string write(const char* name, std::uint32_t tensors);
  // Those bytes of the table are the file's.
  bool is_the_file(const Client& client, std::uint64_t offset, std::uint64_t count) const;
  // Programs on a GPU that do nothing have to say so, or nothing of theirs can be taken.
  void rest(const Client& client) const { static_cast<void>(pst_idle(client.client, 1)); }

  std::unique_ptr<ServiceProcess> service;
  std::vector<std::byte> content;
};

}  // namespace penstock::test
