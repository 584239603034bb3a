// SPDX-License-Identifier: Apache-2.0
// A program that uses a GPU and pages of the service on it. It does what the lines of its standard input say, each answered
// by one line. `gpu_program cuda|hip SOCKET FILE`; the driver is what LD_LIBRARY_PATH finds.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/device/gpu/vendor.hpp"
#include "service/client/include/penstock.h"
#include "tests/fakes/fake_control.h"

namespace penstock::test {
namespace {

constexpr std::uint64_t millisecond = 1'000'000;

class Program {
 public:
  Program(GpuVendor vendor, const char* socket, const char* file)
      : vendor_(vendor), socket_(socket), file_(file) {
    CHECK(connect() == "done");
    // In one call: byte by byte it is most of what a program of a loaded machine does.
    content_.resize(std::filesystem::file_size(file));
    std::ifstream stream(file, std::ios::binary);
    CHECK(stream.read(content_.data(), static_cast<std::streamsize>(content_.size())));
  }
  ~Program() { pst_disconnect(client_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string run(const std::string& line) {
    std::istringstream words(line);
    std::string verb, name;
    words >> verb;
    if (verb == "driver") return load_driver();
    if (verb == "open") {
      words >> name;
      return open(name);
    }
    if (verb == "close") {
      pst_table_close(table_);
      return "done";
    }
    if (const auto answer = choose(verb, words)) return *answer;
    if (verb == "elsewhere") {
      // On a thread for which no context is current.
      std::string answer;
      std::getline(words, name);
      std::thread([&] { answer = run(name); }).join();
      return answer;
    }
    if (verb == "disconnect") {
      pst_disconnect(std::exchange(client_, nullptr));
      return "done";
    }
    if (verb == "connect") return connect();
    if (verb == "mappings") {
      FakeLive live{};
      live_(&live);
      return std::to_string(live.mappings);
    }
    if (verb == "in-a-child") return in_a_child();
    if (verb == "idle" || verb == "busy") return told(pst_idle(client_, verb == "idle"));
    if (verb == "revokes") return told(pst_run_revokes(client_));
    if (verb == "residency") return residency();
    if (verb == "capture") return std::to_string(begin_capture_(stream(), 0));
    if (verb == "captured") {
      void* graph = nullptr;
      return std::to_string(end_capture_(stream(), &graph));
    }
    if (verb == "landed") {
      CHECK(context_->synchronize(stream_).ok());
      return std::memcmp(landed_, content_.data() + (from_ - shift_), count_) == 0 ? "same" : "different";
    }
    if (verb == "let-go") {
      __atomic_store_n(static_cast<std::uint32_t*>(flag_), 1, __ATOMIC_RELEASE);
      const DriverCode of_default = context_->synchronize(StreamHandle{});
      return std::to_string(of_default.ok() ? context_->synchronize(stream_).native : of_default.native);
    }
    if (verb == "calls") {
      words >> name;
      return std::to_string(calls_(name.c_str()));
    }
    std::uint64_t offset = 0, bytes = 0;
    words >> offset >> bytes;
    if (verb == "pin") return told(pst_fault(table_, offset, bytes, 20'000 * millisecond));
    if (verb == "look") return told(pst_fault(table_, offset, bytes, 0));
    if (verb == "unpin") return told(pst_unpin(table_, offset, bytes, stream()));
    if (verb == "private") return told(pst_make_private(table_, offset, bytes, 20'000 * millisecond));
    if (verb == "copy") return copy(offset, bytes);
    if (verb == "write") return write(offset);
    if (verb == "hold") return hold(offset, bytes, stream());
    // Of the GPU, or of the context.
    if (verb == "hold-default") return hold(offset, bytes, nullptr);
    if (verb == "unpin-default") return told(pst_unpin(table_, offset, bytes, nullptr));
    return "what?";
  }

 private:
  std::string told(pst_status status) const {
    if (status == PST_DONE) return "done";
    return fmt::format("{}: {}", pst_status_name(status), pst_last_error(client_));
  }
  void* stream() const { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream_)); }
  DeviceAddress at(std::uint64_t offset) const {
    return DeviceAddress{reinterpret_cast<std::uintptr_t>(address_) + offset};
  }

  std::string connect() {
    pst_connect_options options{};
    options.size = sizeof options;
    options.socket = socket_;
    CHECK(pst_connect(&options, &client_) == PST_DONE);
    CHECK(pst_open(client_, file_, &checkpoint_) == PST_DONE);
    return "done";
  }
  std::string load_driver() {
    const OpenedVendor opened = open_vendor(vendor_, DriverLoading::load);
    if (opened.gpus.empty()) return opened.report.detail;
    for (const auto& driver : opened.gpus) gpus_.push_back({driver, nullptr, {}});
    CHECK(use(0) == "done");
    // Page-locked: a copy to other memory would have ended when the call returns.
    CHECK(context_->allocate_host(content_.size(), landed_).ok());
    void* const library = ::dlopen(opened.report.library.c_str(), RTLD_NOW | RTLD_NOLOAD);
    CHECK(library != nullptr);
    const bool hip = vendor_ == GpuVendor::hip;
    const auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
      CHECK(function != nullptr);
    };
    find(calls_, "penstock_fake_call_count");
    find(used_bytes_, "penstock_fake_used_bytes");
    find(live_, "penstock_fake_live");
    find(begin_capture_, hip ? "hipStreamBeginCapture" : "cuStreamBeginCapture_v2");
    find(end_capture_, hip ? "hipStreamEndCapture" : "cuStreamEndCapture");
    find(load_module_, hip ? "hipModuleLoadData" : "cuModuleLoadData");
    find(find_kernel_, hip ? "hipModuleGetFunction" : "cuModuleGetFunction");
    find(launch_, hip ? "hipModuleLaunchKernel" : "cuLaunchKernel");
    CHECK(context_->allocate_host(sizeof(std::uint32_t), flag_).ok());
    return "done";
  }
  // Between two tables, and between GPUs; what is known of those.
  std::optional<std::string> choose(const std::string& verb, std::istringstream& words) {
    if (verb == "table") {
      // The other one of two, which may be on another GPU.
      std::swap(table_, other_.table);
      std::swap(address_, other_.address);
      std::swap(shift_, other_.shift);
      return "done";
    }
    if (verb == "gpu") {
      std::size_t at = 0;
      words >> at;
      return use(at);
    }
    if (verb == "gpus") {
      std::string ids;
      for (const Gpu& gpu : gpus_) ids += (ids.empty() ? "" : " ") + gpu.driver->description().identity.id;
      return ids;
    }
    if (verb == "used") {
      int device = 0;
      words >> device;
      return std::to_string(used_bytes_(device));
    }
    if (verb == "current") {
      // Which of the GPUs is this thread's, by its context.
      std::string found = "none";
      for (std::size_t at = 0; at != gpus_.size(); ++at) {
        if (gpus_[at].context && gpus_[at].context->is_current()) found = std::to_string(at);
      }
      return found;
    }
    return std::nullopt;
  }
  // Makes the GPU's context this thread's, and what comes is queued there.
  std::string use(std::size_t at) {
    Gpu& gpu = gpus_.at(at);
    if (!gpu.context) {
      std::unique_ptr<DriverContext> context;
      CHECK(gpu.driver->open_context(context).ok());
      CHECK(context->enter().ok() && context->make_stream(gpu.stream).ok());
      gpu.context = std::move(context);
    }
    context_ = gpu.context.get();
    stream_ = gpu.stream;
    CHECK(context_->enter().ok());
    return "done";
  }
  // On the service's first device, or on one that is named.
  std::string open(const std::string& device) {
    pst_table_options options{};
    options.size = sizeof options;
    options.device = device.empty() ? nullptr : device.c_str();
    const pst_status status = pst_table_open(checkpoint_, &options, &table_);
    if (status != PST_DONE) return told(status);
    pst_table_info info{};
    info.size = sizeof info;
    CHECK(pst_table_describe(table_, &info) == PST_DONE);
    address_ = info.address;
    std::uint64_t header = 0, first = 0, bytes = 0;
    std::memcpy(&header, content_.data(), sizeof header);
    CHECK(pst_table_tensor(table_, 0, &first, &bytes) == PST_DONE);
    shift_ = first - header - sizeof header;
    return "done";
  }
  // What a forked child is told of the table. Its end gives nothing of the parent's back.
  std::string in_a_child() {
    std::array<int, 2> ends{};
    CHECK(::pipe(ends.data()) == 0);
    const pid_t child = ::fork();
    CHECK(child >= 0);
    if (child == 0) {
      const std::string answer =
          told(pst_fault(table_, 0, 1, 0)) + "; " + told(pst_unpin(table_, 0, 1, nullptr)) + "\n";
      pst_table_close(table_);
      ::_exit(::write(ends[1], answer.data(), answer.size()) > 0 ? 0 : 1);
    }
    ::close(ends[1]);
    std::string answer(4096, 0);
    const ssize_t length = ::read(ends[0], answer.data(), answer.size());
    ::close(ends[0]);
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    if (length <= 0 || status != 0) return "it died";
    return answer.substr(0, static_cast<std::size_t>(length) - 1);
  }
  std::string residency() const {
    pst_residency now{};
    now.size = sizeof now;
    CHECK(pst_table_residency(table_, &now) == PST_DONE);
    return fmt::format("mapped {} pinned {} private {}", now.mapped_bytes, now.pinned_bytes,
                       now.private_bytes);
  }
  // Queues it; `landed` waits for it and compares.
  std::string copy(std::uint64_t offset, std::uint64_t bytes) {
    from_ = offset;
    count_ = bytes;
    const DriverCode code = context_->copy_out(landed_, at(offset), bytes, stream_);
    return code.ok() ? "done" : std::to_string(code.native);
  }
  std::string write(std::uint64_t offset) {
    const char word[] = "written";
    DriverCode code = context_->copy_in(at(offset), word, sizeof word, stream_);
    if (code.ok()) code = context_->synchronize(stream_);
    return code.ok() ? "done" : std::to_string(code.native);
  }

  // A kernel that runs until `let-go`, and reads the pages then.
  std::string hold(std::uint64_t offset, std::uint64_t bytes, void* queue) {
    void *module = nullptr, *kernel = nullptr;
    CHECK(load_module_(&module, "any image") == 0);
    CHECK(find_kernel_(&kernel, module, "penstock_fake_hold") == 0);
    *static_cast<std::uint32_t*>(flag_) = 0;
    std::uint64_t flag = reinterpret_cast<std::uintptr_t>(flag_);
    std::uint64_t memory = static_cast<std::uint64_t>(at(offset));
    std::array<void*, 3> parameters{&flag, &memory, &bytes};
    return std::to_string(launch_(kernel, 1, 1, 1, 1, 1, 1, 0, queue, parameters.data(), nullptr));
  }

  const GpuVendor vendor_;
  const char* const socket_;
  const char* const file_;
  pst_client* client_ = nullptr;
  pst_checkpoint* checkpoint_ = nullptr;
  pst_table* table_ = nullptr;
  void* address_ = nullptr;
  struct Gpu {
    std::shared_ptr<GpuDriver> driver;
    std::unique_ptr<DriverContext> context;
    StreamHandle stream;
  };
  std::vector<Gpu> gpus_;
  DriverContext* context_ = nullptr;
  StreamHandle stream_{};
  struct {
    pst_table* table = nullptr;
    void* address = nullptr;
    std::uint64_t shift = 0;
  } other_;
  FakeCallCount calls_ = nullptr;
  std::uint64_t (*used_bytes_)(int device) = nullptr;
  FakeGetLive live_ = nullptr;
  int (*begin_capture_)(void* stream, int mode) = nullptr;
  int (*end_capture_)(void* stream, void** graph) = nullptr;
  int (*load_module_)(void** module, const void* image) = nullptr;
  int (*find_kernel_)(void** kernel, void* module, const char* name) = nullptr;
  int (*launch_)(void* kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                 void* stream, void** parameters, void** extra) = nullptr;
  void* flag_ = nullptr;  // Page-locked.
  std::string content_;
  void* landed_ = nullptr;
  std::uint64_t shift_ = 0;  // Of the table against the file.
  std::uint64_t from_ = 0, count_ = 0;
};

}  // namespace
}  // namespace penstock::test

int main(int count, char** arguments) {
  using namespace penstock;
  if (count != 4) return 2;
  const GpuVendor vendor = std::string(arguments[1]) == "hip" ? GpuVendor::hip : GpuVendor::cuda;
  test::Program program(vendor, arguments[2], arguments[3]);
  char line[256];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    std::printf("%s\n", program.run(line).c_str());
    std::fflush(stdout);
  }
  return 0;
}
