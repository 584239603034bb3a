// SPDX-License-Identifier: Apache-2.0
#include "dataplane/writer/sharing_test.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "dataplane/device/gpu/gpu_frame_owner.hpp"
#include "dataplane/writer/gpu_filler.hpp"

namespace penstock {
namespace {

// A message: the letter of its kind, and why.
constexpr std::string_view kind_letters = "sc?";  // In the order of SharingAnswer::Kind.
constexpr std::size_t message_bytes_max = 1024;
// For what a killed process leaves to the kernel. One that a driver holds there is left behind.
constexpr int end_milliseconds = 2'000;

std::string to_message(const SharingAnswer& answer) {
  return (kind_letters[static_cast<std::size_t>(answer.kind)] + answer.why).substr(0, message_bytes_max);
}

SharingAnswer from_message(std::string_view message) {
  const std::size_t kind = message.empty() ? std::string_view::npos : kind_letters.find(message.front());
  if (kind == std::string_view::npos) return {.why = "its self-test ended without an answer"};
  return {.kind = static_cast<SharingAnswer::Kind>(kind), .why = std::string(message.substr(1))};
}

SharingAnswer test(GpuVendor vendor, const std::string& id) {
  const auto driver = find_gpu(vendor, id);
  if (!driver) return {.why = driver.error().message};
  const SelfTestReport report = run_self_test(**driver, default_gpu_frame_bytes((*driver)->description()));
  if (report.passed) return {.kind = SharingAnswer::Kind::shares, .why = ""};
  return {.kind = report.cannot_share ? SharingAnswer::Kind::cannot_share : SharingAnswer::Kind::unknown,
          .why = report.problem};
}

int milliseconds_until(std::chrono::steady_clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 600'000));
}

}  // namespace

bool answer_sharing_test(GpuVendor vendor, const std::string& id, int socket) {
  const std::string message = to_message(test(vendor, id));
  return ::send(socket, message.data(), message.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
}

SharingTest SharingTest::start(const WriterProgram& program) {
  SharingTest started;
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    started.failed_ = fmt::format("socketpair: {}", std::strerror(errno));
    return started;
  }
  started.socket_ = UniqueFd(ends[0]);
  UniqueFd theirs(ends[1]), error;
  auto lines = ProcessLines::open(error);
  if (lines) started.lines_ = *std::move(lines);
  auto process = WriterProcess::spawn(program, std::move(theirs), std::move(error));
  if (!process) {
    started.failed_ = fmt::format("{} ({})", process.error().operation, process.error().native);
    return started;
  }
  started.process_.emplace(*std::move(process));
  return started;
}

SharingAnswer SharingTest::finish(std::chrono::steady_clock::time_point end, const ProcessLines::Say& say) {
  if (!process_) return {.why = failed_};
  std::array<char, message_bytes_max> message;
  ssize_t bytes = 0;
  for (bool answered = false; !answered;) {
    // Without the lines a process that says much would wait for us, and we for it.
    std::array<pollfd, 2> either{pollfd{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = lines_.fd(), .events = POLLIN, .revents = 0}};
    if (::poll(either.data(), either.size(), milliseconds_until(end)) == 0) break;
    if (either[1].revents != 0) lines_.read(say);
    answered = either[0].revents != 0;
    if (answered) bytes = ::recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT);
  }
  const bool in_time = process_->reap_within(milliseconds_until(end)).has_value();
  if (!in_time) {
    process_->kill();
    static_cast<void>(process_->reap_within(end_milliseconds));
  }
  lines_.close(say);
  if (!in_time && bytes <= 0) return {.why = "its self-test did not end in time"};
  return from_message({message.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))});
}

}  // namespace penstock
