// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/read_pool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "tests/support/drive_reader.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {
namespace {

std::vector<ReadDone> collect_all(ReadPool& pool, std::size_t count) {
  std::vector<ReadDone> all;
  while (all.size() < count) {
    std::array<ReadDone, 3> done;
    const std::size_t got = pool.collect(done);
    all.insert(all.end(), done.begin(), done.begin() + got);
    if (got > 0) continue;
    pool.event().consume();
    if (pool.can_collect()) continue;
    EXPECT_TRUE(wait_readable(pool.event().fd(), 20'000)) << "a lost wake-up";
  }
  return all;
}

TEST(ReadPool, AnswersEveryJobOnceUnderManyThreads) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", std::string(4096, 'x'));
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto pool = *ReadPool::start(8, 32);
  std::vector<std::byte> memory(32 * 64);
  for (std::uint64_t round = 0; round < 200; ++round) {
    std::vector<ReadPool::Job> jobs;
    for (std::uint64_t job = 0; job < 32; ++job) {
      jobs.push_back({.fd = file.get(),
                      .extent = {.offset = job * 64, .length = 64},
                      .destination = memory.data() + job * 64,
                      .tag = round * 100 + job});
    }
    pool->push(jobs);
    std::set<std::uint64_t> tags;
    for (const ReadDone& done : collect_all(*pool, 32)) {
      EXPECT_EQ(done.result, 64);
      tags.insert(done.tag);
    }
    ASSERT_EQ(tags.size(), 32u);
    ASSERT_EQ(*tags.begin(), round * 100);
    ASSERT_EQ(pool->in_flight(), 0u);
  }
}

TEST(ReadPool, AnswersCancelledJobsAsWell) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", std::string(1 << 17, 'x'));
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto pool = *ReadPool::start(1, 64);
  std::vector<std::byte> memory(1 << 17);
  for (int round = 0; round < 10; ++round) {
    const ReadPool::Job job{
        .fd = file.get(), .extent = {.offset = 0, .length = 1 << 17}, .destination = memory.data()};
    pool->push(std::vector(64, job));
    pool->cancel_waiting();
    for (const ReadDone& done : collect_all(*pool, 64)) {
      EXPECT_TRUE(done.result == -ECANCELED || done.result == 1 << 17) << done.result;
    }
    EXPECT_FALSE(pool->can_collect());
    EXPECT_EQ(pool->in_flight(), 0u);
  }
}

TEST(ReadPool, DropsWhatHasNotStartedWhenItGoes) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", std::string(1 << 20, 'x'));
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  for (int round = 0; round < 10; ++round) {
    auto pool = *ReadPool::start(2, 16);
    std::vector<std::byte> memory(1 << 20);
    std::vector<ReadPool::Job> jobs(16, ReadPool::Job{.fd = file.get(),
                                                      .extent = {.offset = 0, .length = 1 << 16},
                                                      .destination = memory.data(),
                                                      .tag = 0});
    for (std::uint64_t job = 0; job < 16; ++job) jobs[job].destination = memory.data() + job * (1 << 16);
    pool->push(jobs);
    pool.reset();
    std::ranges::fill(memory, std::byte{0});
    EXPECT_EQ(std::ranges::count(memory, std::byte{0}), 1 << 20);
  }
}

}  // namespace
}  // namespace penstock::test
