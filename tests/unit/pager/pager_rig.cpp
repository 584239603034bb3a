// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pager/pager_rig.hpp"

#include <utility>

#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/core/simple_eviction.hpp"
#include "dataplane/device/host/host_frame_summer.hpp"
#include "tests/unit/pager/load_rig.hpp"

namespace penstock::test {
namespace {

template <class T>
std::unique_ptr<Mailbox<T>> mailbox_of(std::size_t capacity) {
  auto made = Mailbox<T>::create(capacity);
  CHECK(made);
  return *std::move(made);
}

}  // namespace

PagerRig::PagerRig(PagerRigOptions options)
    : device(options.device),
      checked(device.owner(), device.writer()),
      mailbox(mailbox_of<PagerMail>(256)),
      news(mailbox_of<PagerNews>(options.news_messages)) {
  auto ring = PinnedRing::make({.slot_bytes = 16 * 1024, .slots = 8, .reserved_huge_pages = false});
  CHECK(ring);
  auto stepped = std::make_unique<StepReader>();
  reader = stepped.get();
  auto stream = ReadStream::make(std::move(stepped), {}, {});
  CHECK(stream);
  auto loads = std::make_unique<LoadPipeline>(*std::move(ring), *std::move(stream), checked.writer(),
                                              checked.owner().limits(),
                                              LoadPipelineOptions{.read_bytes_max = 16 * 1024});
  pager = std::make_unique<Pager>(Pager::Parts{.owner = checked.owner(),
                                               .writer = checked.writer(),
                                               .loads = std::move(loads),
                                               .policy = std::make_unique<SimpleEviction>(),
                                               .mail = *mailbox,
                                               .news = *news,
                                               .watch = watch,
                                               .stats = stats,
                                               .summer = options.scrubs ? std::make_unique<HostFrameSummer>()
                                                                        : std::move(options.summer)},
                                  options.pager);
}

ScriptedPort* PagerRig::open_session(std::uint32_t session, std::uint64_t private_bytes_max) {
  ScriptedPort& script = scripts_.emplace_back();
  mail(mail::OpenSession{.session = SessionId{session},
                         .port = std::make_unique<PortToScript>(script),
                         .private_bytes_max = private_bytes_max});
  return &script;
}

TableId PagerRig::open_file(std::uint32_t table, std::uint64_t bytes) {
  const auto path = folder.write("weights-" + std::to_string(table), expected_bytes(0, bytes, bytes));
  paths[table] = path;
  auto file = CheckpointFile::open(path);
  CHECK(file);
  auto source = std::make_shared<const TableSource>(
      TableSource{.layout = PageLayout::identity(bytes, frame), .files = {*std::move(file)}});
  auto made = PageWords::create(source->layout.pages());
  CHECK(made);
  words[table] = *made;
  mail(mail::OpenTable{.table = TableId{table},
                       .kind = TableKind::file,
                       .pages = source->layout.pages(),
                       .source = source,
                       .words = *made});
  return TableId{table};
}

void PagerRig::open_private(std::uint32_t table, TableKind kind, std::uint32_t pages, std::uint32_t owner,
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

std::shared_ptr<PinWords> PagerRig::attach(std::uint32_t session, std::uint32_t table, std::uint32_t pages,
                                           RevokeMode mode) {
  auto pins = PinWords::create(pages);
  CHECK(pins);
  mail(mail::AttachTable{.session = SessionId{session},
                         .table = TableId{table},
                         .number = TableNumber{table},
                         .mode = mode,
                         .pins = *pins});
  return *pins;
}

ScriptedPort* PagerRig::start(std::uint64_t bytes) {
  ScriptedPort* port = open_session(1);
  open_file(1, bytes);
  attach(1, 1, static_cast<std::uint32_t>((bytes + frame - 1) / frame));
  turn();
  return port;
}

void PagerRig::mail(PagerMail message) { CHECK(mailbox->try_push(std::move(message))); }

void PagerRig::turn() {
  std::vector<SessionId> readable, writable;
  for (const auto& [session, wants] : watch.writable) {
    readable.push_back(session);
    if (wants) writable.push_back(session);
  }
  now += std::chrono::microseconds(10);
  pager->turn(now, {.readable = readable, .writable = writable});
  if (pager->has_unsettled()) pager->publish();
}

void PagerRig::settle() {
  for (int round = 0; round < 30; ++round) turn();
}

std::vector<std::byte> PagerRig::content(const SentPage& page) {
  std::vector<std::byte> bytes(frame);
  CHECK(::pread(page.file.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return bytes;
}

}  // namespace penstock::test
