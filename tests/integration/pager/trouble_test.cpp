// SPDX-License-Identifier: Apache-2.0
// Reads that fail, clients that die or don't read, and stopping in the middle of it.
#include <cerrno>
#include <memory>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/clock.hpp"
#include "dataplane/io/pread_reader.hpp"
#include "tests/integration/pager/node.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/faulty_reader.hpp"
#include "tests/unit/pager/step_reader.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame = 256 * 1024;

std::uint8_t code(TicketResult result) { return static_cast<std::uint8_t>(result); }

// A reader that does to its first reads what `spoil` says.
DataplaneThread::ReaderMaker faulty(std::function<void(FaultyReader&)> spoil) {
  return [spoil](const PinnedRing*) -> Outcome<OpenedReader> {
    auto pread = PreadReader::open({});
    if (!pread) return tl::unexpected(pread.error());
    auto reader = std::make_unique<FaultyReader>(*std::move(pread));
    spoil(*reader);
    return OpenedReader{.reader = std::move(reader), .report = {}};
  };
}

// A reader whose reads never end, whatever it is told.
Outcome<OpenedReader> open_stuck(const PinnedRing*) {
  auto reader = std::make_unique<StepReader>();
  reader->hold();
  reader->ignore_cancels();
  return OpenedReader{.reader = std::move(reader), .report = {}};
}

// One client on table 1, a file of that many pages.
std::unique_ptr<WireClient> connect_to_file(Node& node, std::uint32_t pages) {
  node.make_file("weights", pages * frame);
  node.open_identity(1, "weights");
  auto client = node.connect(1);
  node.attach(1, 1);
  return client;
}

TEST(PagingTrouble, FailsOnePageForAReadErrorAndServesTheNext) {
  Node node({.make_reader = faulty([](FaultyReader& reader) { reader.answer_next(-EIO); })});
  const std::vector<std::byte> content = node.make_file("weights", 4 * frame);
  node.open_identity(1, "weights");
  const auto client = node.connect(1);
  node.attach(1, 1);
  const PeerCompletion failed = client->fault(1, 0);
  EXPECT_EQ(failed.result, code(TicketResult::failed));
  EXPECT_EQ(failed.reason, FailureKind::io_error);
  EXPECT_EQ(client->fault(1, 1).result, code(TicketResult::done));
  EXPECT_TRUE(equals_page(client->bytes(1, 1), content, 1));
  EXPECT_EQ(client->fault(1, 0).result, code(TicketResult::done));
  EXPECT_TRUE(eventually([&] { return node.thread->stats().read_errors.load() == 1u; }));
}

TEST(PagingTrouble, LoadsTheRightBytesThroughShortReads) {
  Node node({.make_reader = faulty([](FaultyReader& reader) { reader.limit_results(4096); })});
  const std::vector<std::byte> content = node.make_file("weights", 2 * frame + 77);
  const std::uint32_t pages = node.open_identity(1, "weights");
  const auto client = node.connect(1);
  node.attach(1, 1);
  ASSERT_EQ(client->fault(1, 0, pages).result, code(TicketResult::done));
  for (std::uint32_t page = 0; page < pages; ++page)
    EXPECT_TRUE(equals_page(client->bytes(1, page), content, page));
  EXPECT_TRUE(eventually([&] { return node.thread->stats().short_reads.load() > 10u; }));
}

TEST(PagingTrouble, TellsTheServiceWhyALoadFailed) {
  Node node({.make_reader = faulty([](FaultyReader& reader) { reader.end_at(frame + 100); })});
  node.make_file("weights", 3 * frame);
  node.open_identity(1, "weights");
  const RequestDone failed = node.ask(mail::LoadTable{.table = TableId{1}});
  EXPECT_EQ(failed.result, TicketResult::failed);
  EXPECT_NE(failed.detail.find("unexpected end"), std::string::npos) << failed.detail;
}

TEST(PagingTrouble, ForgetsAClientThatWasKilledAndServesTheOthers) {
  Node node({.frames = 8});
  const std::vector<std::byte> content = node.make_file("weights", 16 * frame);
  node.open_identity(1, "weights");
  UniqueFd socket = node.connect_socket(1);
  node.open_private(9, TableKind::anonymous, 4, 1);
  node.attach(1, 1);
  node.attach(1, 9);
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // It maps and pins pages, asks for more, and never answers again.
    WireClient client(std::move(socket), frame);
    client.fault(1, 0, 4);
    client.fault(9, 0, 2);
    client.start_fault(1, 4, 1);
    static_cast<void>(!::write(told[1], "x", 1));
    for (;;) ::pause();
  }
  socket.reset();
  char byte = 0;
  ASSERT_EQ(::read(told[0], &byte, 1), 1);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(node.wait_for<PeerGone>().session, SessionId{1});
  node.mail(mail::CloseSession{.session = SessionId{1}});
  const auto other = node.connect(2);
  node.attach(2, 1);
  ASSERT_EQ(other->fault(1, 8, 8).result, code(TicketResult::done));  // Needs every frame of the device.
  for (std::uint32_t page = 8; page < 16; ++page)
    EXPECT_TRUE(equals_page(other->bytes(1, page), content, page));
  EXPECT_TRUE(eventually([&] { return node.thread->stats().private_bytes.load() == 0u; }));
  ::close(told[0]);
  ::close(told[1]);
}

TEST(PagingTrouble, ServesOthersWhileAClientDoesNotAnswer) {
  Node node({.frames = 8, .revoke_deadline = std::chrono::milliseconds(50)});
  node.make_file("weights", 16 * frame);
  node.open_identity(1, "weights");
  const auto silent = node.connect(1), other = node.connect(2);
  node.attach(1, 1);
  node.attach(2, 1);
  ASSERT_EQ(silent->fault(1, 0, 4).result, code(TicketResult::done));
  ASSERT_EQ(other->fault(1, 4, 4).result, code(TicketResult::done));
  for (std::uint32_t page = 4; page < 8; ++page) other->pin(1, page);
  // Only the silent client has something to give.
  EXPECT_EQ(other->fault(1, 8).result, code(TicketResult::offloaded));
  EXPECT_TRUE(eventually([&] { return node.thread->stats().stuck_bytes.load() == 4 * frame; }));
  other->unpin(1, 4);
  EXPECT_EQ(other->fault(1, 8).result, code(TicketResult::done));
  // It speaks again.
  EXPECT_TRUE(silent->serve(10));
  EXPECT_TRUE(eventually([&] { return node.thread->stats().stuck_bytes.load() == 0; }));
}

TEST(PagingTrouble, EndsAClientThatAsksAndNeverReads) {
  Node node;
  node.make_file("weights", 4 * frame);
  node.open_identity(1, "weights");
  const auto deaf = node.connect(1), other = node.connect(2);
  node.attach(1, 1);
  node.attach(2, 1);
  std::thread asking([&] {
    for (int request = 0; request < 20'000; ++request) deaf->start_fault(1, 0, 1);
  });
  const PeerGone gone = node.wait_for<PeerGone>();
  EXPECT_EQ(gone.session, SessionId{1});
  EXPECT_EQ(gone.reason, FailureKind::protocol_violation);
  node.mail(mail::CloseSession{.session = SessionId{1}});
  asking.join();
  EXPECT_EQ(other->fault(1, 0, 4).result, code(TicketResult::done));
}

TEST(PagingTrouble, StopsInTheMiddleOfALoad) {
  Node node({.bandwidth_bytes_per_second = 4 * frame});
  node.make_file("weights", 32 * frame);
  node.open_identity(1, "weights");
  const auto client = node.connect(1);
  node.attach(1, 1);
  ASSERT_EQ(client->fault(1, 0).result, code(TicketResult::done));
  const std::uint64_t request = client->start_fault(1, 1, 20);
  node.mail(mail::LoadTable{.request = RequestId{77}, .table = TableId{1}});
  const Nanoseconds start = monotonic_now();
  node.mail(mail::Stop{});
  EXPECT_EQ(node.wait_for<PagerStopped>().stuck_on, "");
  node.stop();
  EXPECT_LT(monotonic_now() - start, std::chrono::seconds(5));
  EXPECT_EQ(client->wait_for(request).reason, FailureKind::closing);
  EXPECT_FALSE(client->serve(1000));  // Hung up.
  EXPECT_TRUE(client->closing);
  EXPECT_EQ(client->bytes(1, 0).size(), frame);  // What is mapped stays readable.
}

TEST(CaseS05, ACopyThatTheDeviceDoesNotFinishDoesNotHoldUpTheEnd) {
  Node node({.stop_deadline = std::chrono::milliseconds(100), .addressable = false});
  const auto client = connect_to_file(node, 4);
  node.faulty->hold_fences();
  const std::uint64_t request = client->start_fault(1, 0, 4);
  ASSERT_TRUE(eventually([&] { return node.faulty->copies() > 0; }));
  node.mail(mail::Stop{});
  const PagerStopped stopped = node.wait_for<PagerStopped>();
  EXPECT_EQ(stopped.stuck_on, "");
  EXPECT_TRUE(stopped.copies_left);
  node.stop();
  EXPECT_EQ(client->wait_for(request).reason, FailureKind::closing);
  // The copy still reads its slots and writes its frames, and both are there.
  node.faulty->release_fences();
}

TEST(CaseS05, ACopyThatEndsInTimeIsWaitedFor) {
  Node node({.addressable = false});
  const auto client = connect_to_file(node, 4);
  node.faulty->hold_fences();
  client->start_fault(1, 0, 4);
  ASSERT_TRUE(eventually([&] { return node.faulty->copies() > 0; }));
  node.mail(mail::Stop{});
  node.faulty->release_fences();
  EXPECT_FALSE(node.wait_for<PagerStopped>().copies_left);
  node.stop();
}

TEST(PagingTrouble, StopsAlthoughAReadNeverEnds) {
  Node node({.stop_deadline = std::chrono::milliseconds(100), .make_reader = open_stuck});
  const auto client = connect_to_file(node, 4);
  client->start_fault(1, 0);
  EXPECT_TRUE(eventually([&] { return node.words[1]->load(0) != 0; }));
  node.mail(mail::Stop{});
  const std::string stuck_on = node.wait_for<PagerStopped>().stuck_on;
  EXPECT_NE(stuck_on.find("bytes at 0 of checkpoint " + node.open("weights")->identity().id()),
            std::string::npos)
      << stuck_on;
  node.stop();
}

TEST(PagingTrouble, StopsWithoutASeparateStopMessage) {
  Node node;
  const auto client = connect_to_file(node, 4);
  client->start_fault(1, 0, 4);
  node.stop();  // The destructor alone.
  EXPECT_FALSE(client->serve(1000));
}

}  // namespace
}  // namespace penstock::test
