// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/pager/node.hpp"

#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/core/simple_eviction.hpp"
#include "service/protocol/device_port.hpp"
#include "service/protocol/socket_io.hpp"
#include "tests/support/drive_reader.hpp"
#include "tests/support/random_file.hpp"

namespace penstock::test {

Node::Node(const NodeOptions& options) : frame_bytes(options.frame_bytes) {
  const HostFrameOptions frames{.frame_bytes = options.frame_bytes,
                                .capacity_bytes = options.frames * options.frame_bytes,
                                .ready_pool_frames = 4,
                                .pages = HostPages::small};
  const SharedDevice shared =
      options.make_device ? options.make_device(frames, headroom) : host_device(frames, options.addressable);
  DataplaneThreadOptions thread_options;
  thread_options.ring = {.slot_bytes = 64 * 1024, .slots = 32, .reserved_huge_pages = false};
  thread_options.reader.io = options.io;
  thread_options.stream.bandwidth_bytes_per_second = options.bandwidth_bytes_per_second;
  thread_options.loads.read_bytes_max = 64 * 1024;
  thread_options.pager.revoke_deadline = options.revoke_deadline;
  thread_options.pager.stop_deadline = options.stop_deadline;
  auto started =
      DataplaneThread::start(shared, std::make_unique<SimpleEviction>(), thread_options, options.make_reader);
  CHECK(started);
  thread = *std::move(started);
}

SharedDevice Node::host_device(const HostFrameOptions& frames, bool addressable) {
  struct Both {
    HostDevice host;
    FaultyDevice faulty;
    Both(HostDevice opened, bool reachable)
        : host(std::move(opened)), faulty(host.owner(), host.writer(), {.addressable = reachable}) {}
  };
  Result<HostDevice> opened = HostDevice::open(frames, headroom);
  CHECK(opened);
  const auto both = std::make_shared<Both>(*std::move(opened), addressable);
  device = std::shared_ptr<HostDevice>(both, &both->host);
  faulty = std::shared_ptr<FaultyDevice>(both, &both->faulty);
  return {.owner = std::shared_ptr<FrameOwner>(faulty, &faulty->owner()),
          .writer = std::shared_ptr<FrameWriter>(faulty, &faulty->writer())};
}

std::vector<std::byte> Node::make_file(const std::string& name, std::uint64_t bytes) {
  std::vector<std::byte> content = random_bytes(bytes, bytes);
  write_durably(folder / name, content);
  drop_from_page_cache(folder / name);
  return content;
}

std::shared_ptr<CheckpointFile> Node::open(const std::string& name) {
  auto file = CheckpointFile::open(folder / name);
  CHECK(file);
  return *std::move(file);
}

std::uint32_t Node::open_table(std::uint32_t table, TableSource source, TableKind kind) {
  const std::uint32_t pages = source.layout.pages();
  auto made = PageWords::create(pages);
  CHECK(made);
  words[table] = *made;
  mail(mail::OpenTable{.table = TableId{table},
                       .kind = kind,
                       .pages = pages,
                       .source = std::make_shared<const TableSource>(std::move(source)),
                       .words = *made});
  return pages;
}

std::uint32_t Node::open_identity(std::uint32_t table, const std::string& name) {
  const std::shared_ptr<CheckpointFile> file = open(name);
  return open_table(table,
                    {.layout = PageLayout::identity(file->identity().bytes, frame_bytes), .files = {file}});
}

void Node::open_private(std::uint32_t table, TableKind kind, std::uint32_t pages, std::uint32_t owner,
                        std::uint32_t origin) {
  auto made = PageWords::create(pages);
  CHECK(made);
  words[table] = *made;
  mail(mail::OpenTable{.table = TableId{table},
                       .kind = kind,
                       .pages = pages,
                       .source = nullptr,
                       .owner = SessionId{owner},
                       .origin = TableId{origin},
                       .words = *made});
}

UniqueFd Node::connect_socket(std::uint32_t session, std::uint64_t private_bytes_max) {
  auto pair = make_socket_pair();
  CHECK(pair);
  mail(mail::OpenSession{.session = SessionId{session},
                         .port = std::make_unique<DevicePort>(std::move(pair->first)),
                         .private_bytes_max = private_bytes_max});
  return std::move(pair->second);
}

std::unique_ptr<WireClient> Node::connect(std::uint32_t session, std::uint64_t private_bytes_max) {
  return std::make_unique<WireClient>(connect_socket(session, private_bytes_max), frame_bytes);
}

void Node::attach(std::uint32_t session, std::uint32_t table) {
  auto made = PinWords::create(words.at(table)->pages());
  CHECK(made);
  pins[table] = *made;
  mail(mail::AttachTable{
      .session = SessionId{session}, .table = TableId{table}, .number = TableNumber{table}, .pins = *made});
}

void Node::mail(PagerMail message) { CHECK(thread->mail().try_push(std::move(message))); }

PagerNews Node::next_news() {
  while (news_.empty()) {
    CHECK(wait_readable(thread->news().fd(), 20'000));
    thread->news().drain(news_);
  }
  PagerNews first = std::move(news_.front());
  news_.erase(news_.begin());
  return first;
}

bool equals_page(std::span<const std::byte> bytes, std::span<const std::byte> expected, std::uint32_t page) {
  const std::uint64_t start = page * bytes.size();
  const std::uint64_t count = std::min<std::uint64_t>(bytes.size(), expected.size() - start);
  const auto tail = bytes.subspan(count);
  return std::ranges::equal(bytes.first(count), expected.subspan(start, count)) &&
         std::ranges::all_of(tail, [](std::byte byte) { return byte == std::byte{}; });
}

}  // namespace penstock::test
