// SPDX-License-Identifier: Apache-2.0
// R01: io_uring refused by a sandbox or a sysctl costs speed, is told by its name, and never hangs.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "dataplane/base/sha256.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/uring.hpp"
#include "tests/integration/reader/load_file.hpp"
#include "tests/support/in_child.hpp"
#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {
namespace {

constexpr const char* setting = "/proc/sys/kernel/io_uring_disabled";
constexpr std::uint32_t setup_call = 425;
constexpr std::uint32_t enter_call = 426;
constexpr std::uint32_t register_call = 427;

class CaseR01 : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto uring = Uring::open(1); !uring)
      GTEST_SKIP() << "requires io_uring: " << uring.error().message;
    const auto content = random_bytes(3 * mib + 100, 1);
    sha256_ = to_hex(sha256(content));
    write_durably(folder_ / "model", content);
    drop_from_page_cache(folder_ / "model");
    file_ = *CheckpointFile::open(folder_ / "model");
  }
  // The load went through threads, gave the right bytes, and the reason names the errno and the setting.
  void expect_threads(const std::string& told, const std::string& errno_text, const std::string& value) {
    EXPECT_TRUE(told.starts_with("backend=pread sha256=" + sha256_ + " ")) << told;
    expect_reason(told, errno_text, value);
  }
  static void expect_reason(const std::string& told, const std::string& errno_text,
                            const std::string& value) {
    EXPECT_NE(told.find("failed with " + errno_text + " "), std::string::npos) << told;
    EXPECT_NE(told.find("kernel.io_uring_disabled = " + value), std::string::npos) << told;
    EXPECT_EQ(told.find('\n'), std::string::npos) << "one line: " << told;
  }

  TemporaryFolder folder_;
  std::string sha256_;
  std::shared_ptr<CheckpointFile> file_;
};

// Puts the former value back even when an assertion fails.
class DisabledSetting {
 public:
  explicit DisabledSetting(char value) : file_(::open(setting, O_RDWR | O_CLOEXEC)) {
    if (!file_ || ::pread(file_.get(), &before_, 1, 0) != 1) return;
    changed_ = ::pwrite(file_.get(), &value, 1, 0) == 1;
  }
  DisabledSetting(const DisabledSetting&) = delete;
  DisabledSetting& operator=(const DisabledSetting&) = delete;
  ~DisabledSetting() {
    if (!changed_) return;
    EXPECT_EQ(::pwrite(file_.get(), &before_, 1, 0), 1);
  }
  bool changed() const { return changed_; }

 private:
  UniqueFd file_;
  char before_ = '0';
  bool changed_ = false;
};

TEST_F(CaseR01, LoadsWithThreadsUnderASandboxThatRefusesEveryCall) {
  for (const auto& [error, name] : {std::pair{EPERM, "EPERM"}, std::pair{ENOSYS, "ENOSYS"}}) {
    const std::string told = in_child([&, refused = error] {
      deny_system_calls(setup_call, register_call, refused);
      return load_and_tell(file_);
    });
    expect_threads(told, name, "0: a sandbox");
    EXPECT_NE(told.find("io_uring_setup"), std::string::npos) << told;
  }
}

TEST_F(CaseR01, FindsOutAtOpenThatOnlyTheEntryIsRefused) {
  for (const auto& [error, name] : {std::pair{EPERM, "EPERM"}, std::pair{ENOSYS, "ENOSYS"}}) {
    const std::string told = in_child([&, refused = error] {
      deny_system_calls(enter_call, enter_call, refused);
      return load_and_tell(file_);
    });
    expect_threads(told, name, "0: a sandbox");
    EXPECT_NE(told.find("io_uring_enter"), std::string::npos) << told;
  }
}

TEST_F(CaseR01, LoadsWithThreadsWhereOnlyRegisteringIsRefused) {
  const std::string told = in_child([&] {
    deny_system_calls(register_call, register_call, EPERM);
    return load_and_tell(file_);
  });
  expect_threads(told, "EPERM", "0: a sandbox");
  EXPECT_NE(told.find("io_uring_register"), std::string::npos) << told;
}

TEST_F(CaseR01, MovesToThreadsWhenTheEntryIsRefusedInTheMiddle) {
  const std::string told = in_child([&] {
    const Opened opened = open_stream();
    if (opened.report.backend == "pread") return std::string("skip");
    const Loaded before = load_through_slots(*opened.stream, *opened.ring, file_);
    deny_system_calls(enter_call, enter_call, EPERM);
    // Half of it is copied by threads while the other half is lost to the ring.
    drop_from_page_cache(folder_ / "model");
    std::vector<std::byte> warmed(mib);
    if (::pread(file_->cached_fd(), warmed.data(), mib, mib) != static_cast<ssize_t>(mib))
      return std::string("pread");
    const Loaded after = load_through_slots(*opened.stream, *opened.ring, file_);
    return fmt::format("{} {} backend={} switches={}", before.sha256 == sha256_, after.sha256 == sha256_,
                       opened.stream->backend(), after.counters.reader_switches);
  });
  if (told == "skip") GTEST_SKIP() << "requires io_uring, which this system refuses";
  if (!file_->direct().usable) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  EXPECT_EQ(told, "true true backend=pread switches=1");
}

TEST_F(CaseR01, RefusesToStartWithTheSameTextWhenIoUringIsDemanded) {
  const std::string told = in_child([&] {
    deny_system_calls(setup_call, register_call, EPERM);
    return load_and_tell(file_, {.io = ReaderOptions::Io::uring});
  });
  EXPECT_TRUE(told.starts_with("failure=")) << told;
  expect_reason(told, "EPERM", "0: a sandbox");
}

TEST_F(CaseR01, TellsThatTheKernelRefusesEveryone) {
  const DisabledSetting off('2');
  if (!off.changed()) GTEST_SKIP() << "requires root and " << setting;
  expect_threads(in_child([&] { return load_and_tell(file_); }), "EPERM",
                 "2: the kernel refuses it to everyone");
}

TEST_F(CaseR01, TellsThatTheKernelRefusesThoseWithoutPrivilege) {
  const DisabledSetting off('1');
  if (!off.changed()) GTEST_SKIP() << "requires root and " << setting;
  const std::string told = in_child([&] {
    drop_rights(64 * kib);
    return load_and_tell(file_);
  });
  expect_threads(told, "EPERM", "1: the kernel allows it to privileged processes alone");
}

TEST_F(CaseR01, ReadsWithThreadsWhenToldTo) {
  const std::string told = load_and_tell(file_, {.io = ReaderOptions::Io::pread});
  EXPECT_EQ(told, "backend=pread sha256=" + sha256_ + " reason=");
}

}  // namespace
}  // namespace penstock::test
