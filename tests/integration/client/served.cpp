// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/client/served.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "dataplane/base/check.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/support/safetensors_file.hpp"

namespace penstock::test {

RunDevice& RunDevice::get() {
  static RunDevice device;
  return device;
}

RunDevice::RunDevice() {
  const char* const name = std::getenv("PENSTOCK_TEST_GPU");
  if (name == nullptr) return;
  const std::string wanted = name;
  vendor_ = wanted.substr(0, wanted.find('-'));
  // The service, a child, inherits which version it is.
  static_cast<void>(wanted == "cuda" ? FakeGpu::cuda() : FakeGpu::hip(wanted.substr(4)));
}

ServiceOptions RunDevice::service(std::uint64_t capacity) const {
  ServiceOptions options;
  options.capacity_bytes = capacity;
  options.page_bytes = page;
  if (!on_gpu()) return options;
  options.device = vendor_;
  options.environment = {"LD_LIBRARY_PATH=" + std::string(std::getenv("PENSTOCK_BUILD_DIR")) + "/fakes/" +
                         vendor_};
  return options;
}

bool RunDevice::write(std::uint8_t* at, std::uint8_t value) {
  if (!on_gpu()) {
    *at = value;
    return true;
  }
  const auto gpu = vendor_ == "cuda" ? FakeGpu::cuda().gpu()
                                     : FakeGpu::hip(std::getenv("PENSTOCK_FAKE_HIP_VERSION")).gpu();
  std::unique_ptr<DriverContext> context;
  if (!gpu->open_context(context).ok() || !context->enter().ok()) return false;
  const DeviceAddress to{reinterpret_cast<std::uintptr_t>(at)};
  return context->copy_in(to, &value, 1, StreamHandle{}).ok() && context->synchronize(StreamHandle{}).ok();
}

Client::Client(const std::string& socket, bool reconnect) {
  pst_connect_options options{};
  options.size = sizeof options;
  options.socket = socket.c_str();
  options.no_reconnect = reconnect ? 0 : 1;
  EXPECT_EQ(pst_connect(&options, &client), PST_DONE) << pst_last_error(nullptr);
}

void Client::open(const std::string& file, pst_revoke_mode mode) {
  ASSERT_EQ(pst_open(client, file.c_str(), &checkpoint), PST_DONE) << error();
  pst_table_options options{};
  options.size = sizeof options;
  options.mode = mode;
  ASSERT_EQ(pst_table_open(checkpoint, &options, &table), PST_DONE) << error();
  look();
}

void Client::look() {
  pst_table_info info{};
  info.size = sizeof info;
  ASSERT_EQ(pst_table_describe(table, &info), PST_DONE) << error();
  bytes = static_cast<std::uint8_t*>(info.address);
  size = info.bytes;
  EXPECT_EQ(info.page_bytes, page);
  pst_tensor tensor{};
  tensor.size = sizeof tensor;
  std::uint64_t at = 0, length = 0;
  if (info.kind != 0 || pst_tensor_at(checkpoint, 0, &tensor) != PST_DONE) return;
  ASSERT_EQ(pst_table_tensor(table, 0, &at, &length), PST_DONE) << error();
  shift = static_cast<std::int64_t>(at) - static_cast<std::int64_t>(tensor.offset);
}

std::vector<std::uint8_t> Client::read(std::uint64_t offset, std::uint64_t count) const {
  EXPECT_EQ(pst_use_device(client, nullptr), PST_DONE) << error();
  std::vector<std::uint8_t> copy(count);
  EXPECT_EQ(pst_copy_out(table, offset, count, copy.data(), nullptr), PST_DONE) << error();
  return copy;
}

pst_residency Client::residency() const {
  pst_residency told{};
  told.size = sizeof told;
  EXPECT_EQ(pst_table_residency(table, &told), PST_DONE) << error();
  return told;
}

void Served::SetUp() {
  if (service_program().empty()) GTEST_SKIP() << "requires penstockd in PENSTOCK_BUILD_DIR/bin";
}

void Served::start(std::uint64_t capacity) {
  service = std::make_unique<ServiceProcess>(RunDevice::get().service(capacity));
}

std::string Served::write(const char* name, std::uint32_t tensors) {
  std::vector<TensorSpec> specs;
  for (std::uint32_t i = 0; i < tensors; ++i)
    specs.push_back({"t" + std::to_string(i), Dtype::u8, {3 * mib / 2}});
  content = safetensors_bytes(specs);
  return service->folder().write(name, content);
}

bool Served::is_the_file(const Client& client, std::uint64_t offset, std::uint64_t count) const {
  const auto start = static_cast<std::int64_t>(offset) - client.shift;
  const std::int64_t before_it = std::max<std::int64_t>(0, -start);  // Of no meaning.
  if (before_it >= static_cast<std::int64_t>(count)) return true;
  const std::vector<std::uint8_t> seen = client.read(offset + before_it, count - before_it);
  const std::uint64_t first = start + before_it;
  return first + seen.size() <= content.size() &&
         std::memcmp(seen.data(), content.data() + first, seen.size()) == 0;
}

}  // namespace penstock::test
