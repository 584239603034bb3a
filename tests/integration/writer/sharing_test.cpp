// SPDX-License-Identifier: Apache-2.0
#include "dataplane/writer/sharing_test.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/integration/writer/writer_rig.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;

struct Told {
  SharingAnswer answer;
  std::string lines;
};

// Of a program that is a line of shell; descriptor 3 is where the answer goes.
Told ask(const std::string& script, std::chrono::milliseconds limit) {
  const auto program = WriterProgram::open("/bin/sh", {"-c", script});
  EXPECT_TRUE(program);
  SharingTest test = SharingTest::start(*program);
  Told told;
  told.answer = test.finish(std::chrono::steady_clock::now() + limit,
                            [&told](std::string_view line) { told.lines.append(line).append("\n"); });
  return told;
}

TEST(SharingTest, HearsTheAnswerAndWhatTheProcessSays) {
  const Told told = ask("echo a library >&2; printf 'cexport: 800' >&3; echo speaks >&2", 20s);
  EXPECT_EQ(told.answer.kind, SharingAnswer::Kind::cannot_share);
  EXPECT_EQ(told.answer.why, "export: 800");
  EXPECT_EQ(told.lines, "a library\nspeaks\n");
  EXPECT_EQ(ask("printf s >&3", 20s).answer.kind, SharingAnswer::Kind::shares);
}

// An operator's settings are carried on, but for those that are the service's alone.
TEST(SharingTest, AWriterHasTheEnvironmentOfTheServiceWithoutMps) {
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps", 1);
  ::setenv("CUDA_MPS_LOG_DIRECTORY", "/var/log/mps", 1);
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  ::setenv("NOTIFY_SOCKET", "/run/notify", 1);
  const Told told = ask("env >&2; printf s >&3", 20s);
  ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  const Told unset = ask("env >&2; printf s >&3", 20s);
  for (const char* name : {"CUDA_MPS_LOG_DIRECTORY", "CUDA_DEVICE_ORDER", "NOTIFY_SOCKET"}) ::unsetenv(name);
  for (const std::string& lines : {told.lines, unset.lines}) {
    EXPECT_NE(lines.find("CUDA_MPS_PIPE_DIRECTORY=/dev/null/"), std::string::npos) << lines;
    EXPECT_EQ(lines.find("/tmp/nvidia-mps"), std::string::npos) << lines;
    EXPECT_NE(lines.find("CUDA_MPS_LOG_DIRECTORY=/var/log/mps\n"), std::string::npos) << lines;
    EXPECT_NE(lines.find("CUDA_DEVICE_ORDER=PCI_BUS_ID\n"), std::string::npos) << lines;
    EXPECT_EQ(lines.find("NOTIFY_SOCKET"), std::string::npos) << lines;
  }
}

TEST(SharingTest, AProcessThatSaysMuchIsNotHeldUpByIt) {
  const Told told = ask("head -c 1000000 /dev/zero | tr '\\0' x >&2; printf s >&3", 20s);
  EXPECT_EQ(told.answer.kind, SharingAnswer::Kind::shares);
  EXPECT_GT(told.lines.size(), 900'000u);
}

TEST(SharingTest, AnEndWithoutAnAnswerIsNone) {
  for (const char* script : {"exit 1", "kill -9 $$", "printf x >&3", "exec 3>&-; exit 0"}) {
    const SharingAnswer answer = ask(script, 20s).answer;
    EXPECT_EQ(answer.kind, SharingAnswer::Kind::unknown) << script;
    EXPECT_EQ(answer.why, "its self-test ended without an answer") << script;
  }
}

TEST(SharingTest, AProcessThatHangsIsKilledInTime) {
  const std::size_t before = test::open_descriptors();
  const auto began = std::chrono::steady_clock::now();
  const SharingAnswer answer = ask("exec sleep 1000", 100ms).answer;
  EXPECT_LT(std::chrono::steady_clock::now() - began, 2s);
  EXPECT_EQ(answer.kind, SharingAnswer::Kind::unknown);
  EXPECT_EQ(answer.why, "its self-test did not end in time");
  // One that has answered is believed, whatever its end waits for.
  EXPECT_EQ(ask("printf s >&3; exec sleep 1000", 100ms).answer.kind, SharingAnswer::Kind::shares);
  EXPECT_EQ(test::children(), std::set<pid_t>{});
  EXPECT_EQ(test::open_descriptors(), before);
}

}  // namespace
}  // namespace penstock
