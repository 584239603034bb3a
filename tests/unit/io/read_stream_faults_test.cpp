// SPDX-License-Identifier: Apache-2.0
// The disturbed stream: interruptions, refusals, errors, a reader that is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "dataplane/base/units.hpp"
#include "tests/unit/io/stream_under_test.hpp"

namespace penstock::test {
namespace {

class ReadStreamFaults : public StreamTest {};

TEST_F(ReadStreamFaults, RepeatsInterruptedReads) {
  use(mib);
  faults_->answer_next(-EINTR, 3);
  faults_->answer_next(-EAGAIN, 3);
  push_all();
  for (const ReadStream::Answer& answer : drain(*stream_)) EXPECT_TRUE(answer.ok);
  EXPECT_TRUE(holds_the_file());
  EXPECT_EQ(stream_->counters().retries, 6u);
  EXPECT_EQ(stream_->counters().io_errors, 0u);
}

TEST_F(ReadStreamFaults, WaitsLongerBeforeEachRepetition) {
  use(4096);
  faults_->answer_next(-EAGAIN, 3);
  push_extent(0, 4096);
  Nanoseconds now = std::chrono::seconds(1000);
  std::array<ReadStream::Answer, 1> answers;
  Nanoseconds last_delay{0};
  for (std::size_t submitted = 1; submitted <= 3; ++submitted) {
    (void)stream_->poll(now, answers);
    ASSERT_EQ(faults_->history().size(), submitted);
    ASSERT_TRUE(wait_readable(stream_->event_fd(), 20'000));
    (void)stream_->poll(now, answers);
    ASSERT_EQ(faults_->history().size(), submitted) << "repeated without a delay";
    const auto deadline = stream_->next_deadline();
    ASSERT_TRUE(deadline);
    EXPECT_GT(*deadline - now, last_delay);
    last_delay = *deadline - now;
    now = *deadline;
  }
  EXPECT_TRUE(stream_->poll(now, answers) == 1 || drain(*stream_).size() == 1);
  EXPECT_TRUE(holds_the_file());
}

TEST_F(ReadStreamFaults, GivesUpAReadThatIsInterruptedForEver) {
  use(4096);
  faults_->answer_next(-EAGAIN, 1000);
  push_extent(0, 4096);
  const auto answers = drain(*stream_);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_FALSE(answers[0].ok);
  EXPECT_EQ(answers[0].kind, FailureKind::io_error);
  EXPECT_EQ(answers[0].native, EAGAIN);
  EXPECT_EQ(faults_->history().size(), ReadProgress::retries_max + 1);
}

TEST_F(ReadStreamFaults, TellsAnErrorOfOneReadAndFinishesTheOthers) {
  use(mib);
  faults_->answer_next(-EIO, 1);
  push_all();
  int failed = 0;
  for (const ReadStream::Answer& answer : drain(*stream_)) {
    if (answer.ok) continue;
    ++failed;
    EXPECT_EQ(answer.kind, FailureKind::io_error);
    EXPECT_EQ(answer.native, EIO);
    EXPECT_EQ(answer.bytes, 0u);
  }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(stream_->counters().io_errors, 1u);
}

TEST_F(ReadStreamFaults, MovesAFileToCachedReadsOnceItRefusesADirectOne) {
  use(mib);
  if (!has_direct()) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  faults_->answer_next(-EINVAL, 1, ReadPath::direct);
  push_extent(0, 4096);
  EXPECT_TRUE(drain(*stream_).front().ok);
  const std::size_t before = faults_->history().size();
  push_all();
  for (const ReadStream::Answer& answer : drain(*stream_)) EXPECT_TRUE(answer.ok);
  EXPECT_TRUE(holds_the_file());
  const auto later = std::span(faults_->history()).subspan(before);
  EXPECT_TRUE(std::ranges::all_of(later, [](const ReadOp& op) { return op.path == ReadPath::cached; }));
  EXPECT_EQ(stream_->counters().direct_refusals, 1u);

  const auto other = stream_->add(*CheckpointFile::open(folder_ / "model"));
  ASSERT_TRUE(other);
  const std::size_t after = faults_->history().size();
  stream_->push({.file = *other,
                 .extent = {.offset = 0, .length = 4096},
                 .needed_bytes = 4096,
                 .destination = destination_.data()});
  (void)drain(*stream_);
  EXPECT_EQ(faults_->history().size(), after + 1) << "the refusal is of one file, not of the process";
}

TEST_F(ReadStreamFaults, TriesAgainAfterAReaderThatWasBusy) {
  use(mib);
  faults_->be_busy(3);
  push_all();
  for (const ReadStream::Answer& answer : drain(*stream_)) EXPECT_TRUE(answer.ok);
  EXPECT_TRUE(holds_the_file());
}

TEST_F(ReadStreamFaults, ReadsOnWithTheFallbackWhenTheReaderIsRefusedAtRunTime) {
  for (const std::uint32_t submissions : {0u, 1u, 2u}) {
    SCOPED_TRACE(submissions);
    int made = 0;
    use(2 * mib, {.bulk_bytes_in_flight = 4 * step}, [&made]() -> Outcome<std::unique_ptr<FileReader>> {
      ++made;
      return pread_reader();
    });
    const int descriptor = stream_->event_fd();
    faults_->refuse_after(submissions);
    push_all();
    for (const ReadStream::Answer& answer : drain(*stream_)) EXPECT_TRUE(answer.ok);
    EXPECT_TRUE(holds_the_file());
    EXPECT_EQ(made, 1);
    EXPECT_EQ(stream_->counters().reader_switches, 1u);
    EXPECT_EQ(stream_->backend(), "pread");
    EXPECT_EQ(stream_->event_fd(), descriptor);
    push_extent(0, 4096);
    EXPECT_EQ(stream_->poll(monotonic_now(), std::span<ReadStream::Answer>()), 0u);
    EXPECT_TRUE(wait_readable(descriptor, 20'000)) << "the fallback wakes nobody";
    (void)drain(*stream_);
    stream_.reset();
  }
}

TEST_F(ReadStreamFaults, FailsEverythingWhenNoReaderIsLeft) {
  use(2 * mib, {.bulk_bytes_in_flight = 4 * step});
  faults_->refuse_after(1);
  push_all();
  const std::size_t pushed = stream_->unanswered();
  const auto answers = drain(*stream_);
  EXPECT_EQ(answers.size(), pushed);
  EXPECT_TRUE(std::ranges::any_of(
      answers, [](const auto& answer) { return !answer.ok && answer.kind == FailureKind::unsupported; }));
  EXPECT_EQ(stream_->backend(), "none");
  push_extent(0, 4096);
  EXPECT_EQ(drain(*stream_).front().kind, FailureKind::unsupported);
}

TEST_F(ReadStreamFaults, AnswersAReadThatWasDoneBeforeItWasCancelledAsCancelled) {
  use(4096);
  push_extent(0, 4096);
  std::array<ReadStream::Answer, 1> answers;
  ASSERT_EQ(stream_->poll(monotonic_now(), answers), 0u);
  ASSERT_TRUE(wait_readable(stream_->event_fd(), 20'000));
  stream_->cancel(0);
  const auto all = drain(*stream_);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].ok);
  EXPECT_EQ(all[0].kind, FailureKind::cancelled);
}

TEST_F(ReadStreamFaults, AnswersWhatIsCancelled) {
  use(2 * mib, {.bulk_bytes_in_flight = 2 * step});
  push_all();
  const std::size_t pushed = stream_->unanswered();
  stream_->cancel(mib);
  std::array<ReadStream::Answer, 1> first;
  ASSERT_EQ(stream_->poll(monotonic_now(), first), 1u);
  EXPECT_EQ(first[0].tag, mib);
  EXPECT_EQ(first[0].kind, FailureKind::cancelled);
  EXPECT_FALSE(first[0].ok);

  stream_->cancel_all();
  const auto answers = drain(*stream_);
  EXPECT_EQ(answers.size(), pushed - 1);
  EXPECT_TRUE(std::ranges::all_of(
      answers, [](const auto& answer) { return !answer.ok && answer.kind == FailureKind::cancelled; }));
  push_all();
  for (const ReadStream::Answer& answer : drain(*stream_)) EXPECT_TRUE(answer.ok);
  EXPECT_TRUE(holds_the_file());
}

}  // namespace
}  // namespace penstock::test
