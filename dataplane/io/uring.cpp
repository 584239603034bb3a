// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/uring.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>

#include "dataplane/base/check.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/io/errno_name.hpp"

namespace penstock {
namespace {

// Best first: completions only when we ask for them (6.1), completions that don't interrupt (5.19), any
// kernel.
constexpr std::array<unsigned, 3> setup_flags = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    0,
};

bool is_refusal(int rc) { return rc == -EPERM || rc == -ENOSYS || rc == -EACCES; }

// The value of the sysctl as text, so that a refusal tells the kernel's switch from a sandbox.
std::string disabled_setting(int rc) {
  const UniqueFd file(::open("/proc/sys/kernel/io_uring_disabled", O_RDONLY | O_CLOEXEC));
  char text[8] = {};
  const ssize_t count = file ? ::read(file.get(), text, sizeof text - 1) : -1;
  if (count <= 0) return "kernel.io_uring_disabled can't be read";
  const char value = text[0];
  if (!is_refusal(rc)) return fmt::format("kernel.io_uring_disabled = {}", value);
  const char* const meaning = value == '0'   ? "a sandbox such as seccomp refuses it"
                              : value == '1' ? "the kernel allows it to privileged processes alone"
                                             : "the kernel refuses it to everyone";
  return fmt::format("kernel.io_uring_disabled = {}: {}", value, meaning);
}

tl::unexpected<Failure> refusal(const char* operation, int rc) {
  return fail(FailureKind::unsupported,
              fmt::format("io_uring is not usable: {} failed with {} ({})", operation, errno_name(rc),
                          disabled_setting(rc)),
              "allow io_uring_setup, io_uring_enter and io_uring_register in the sandbox's profile, or set "
              "kernel.io_uring_disabled = 0");
}

int init(io_uring& ring, std::uint32_t entries) {
  int rc = -EINVAL;
  for (const unsigned flags : setup_flags) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CLAMP;
    rc = io_uring_queue_init_params(entries, &ring, &params);
    if (rc != -EINVAL) break;
  }
  return rc;
}

}  // namespace

Outcome<std::unique_ptr<Uring>> Uring::open(std::uint32_t entries) {
  auto uring = std::unique_ptr<Uring>(new Uring);
  const int rc = init(uring->ring_, entries);
  if (rc < 0) return refusal("io_uring_setup", rc);
  uring->open_ = true;

  io_uring_prep_nop(uring->next_entry());
  const int entered = io_uring_submit_and_wait(&uring->ring_, 1);
  if (entered < 0) return refusal("io_uring_enter", entered);
  std::int32_t result = -ENODATA;
  uring->consume(1, [&](std::uint64_t, std::int32_t answer) { result = answer; });
  if (result < 0) return refusal("a no-op", result);
  return uring;
}

Uring::~Uring() {
  if (open_) io_uring_queue_exit(&ring_);
}

bool Uring::register_files(std::uint32_t count) { return io_uring_register_files_sparse(&ring_, count) == 0; }

Outcome<void> Uring::register_event(int event_fd) {
  const int rc = io_uring_register_eventfd(&ring_, event_fd);
  if (rc < 0) return refusal("io_uring_register", rc);
  return {};
}

Result<> Uring::set_file(std::uint32_t index, int fd) {
  const int rc = io_uring_register_files_update(&ring_, index, &fd, 1);
  if (rc != 1) return Error{Errc::io, rc < 0 ? -rc : EIO, "io_uring_register"};
  return {};
}

Result<> Uring::register_buffers(std::span<const std::span<std::byte>> pieces) {
  std::vector<iovec> vectors;
  for (const std::span<std::byte> piece : pieces) {
    vectors.push_back({.iov_base = piece.data(), .iov_len = piece.size()});
  }
  const int rc = io_uring_register_buffers(&ring_, vectors.data(), static_cast<unsigned>(vectors.size()));
  if (rc == -ENOMEM || rc == -EPERM) return Error{Errc::exhausted, -rc, "io_uring_register"};
  if (rc < 0) return Error{Errc::unsupported, -rc, "io_uring_register"};
  return {};
}

io_uring_sqe* Uring::next_entry() {
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  CHECK(entry != nullptr);
  return entry;
}

Result<> Uring::answer(int rc, const char* operation) {
  if (rc >= 0 || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY) return {};
  CHECK(rc != -EEXIST);  // A thread that did not make the ring.
  refused_ = true;
  return Error{Errc::unsupported, -rc, operation};
}

Result<> Uring::submit() {
  if (refused_) return Error{Errc::unsupported, EPERM, "io_uring_enter"};
  // One call takes everything unless it is interrupted, or an entry is refused, which ends its batch.
  for (int round = 0; round < 4 && io_uring_sq_ready(&ring_) > 0; ++round) {
    const int rc = io_uring_submit(&ring_);
    TRY(answer(rc, "io_uring_enter"));
    if (rc == -EAGAIN || rc == -EBUSY) break;
  }
  return {};
}

bool Uring::work_waits() const {
  return (__atomic_load_n(ring_.sq.kflags, __ATOMIC_RELAXED) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) !=
         0;
}

bool Uring::can_collect() const { return io_uring_cq_ready(&ring_) > 0 || work_waits(); }

Result<> Uring::collect() {
  if (refused_) return Error{Errc::unsupported, EPERM, "io_uring_enter"};
  return work_waits() ? answer(io_uring_get_events(&ring_), "io_uring_enter") : Result<>();
}

Result<> Uring::wait() {
  if (refused_) return Error{Errc::unsupported, EPERM, "io_uring_enter"};
  return answer(io_uring_submit_and_wait(&ring_, 1), "io_uring_enter");
}

}  // namespace penstock
