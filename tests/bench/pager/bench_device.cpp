// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/pager/bench_device.hpp"

#include <utility>
#include <vector>

#include <poll.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/core/simple_eviction.hpp"
#include "tests/support/eventually.hpp"

namespace penstock::bench {

BenchDevice::BenchDevice(std::uint64_t bytes) : frames_(divide_up(bytes, default_host_frame_bytes)) {
  Result<HostDevice> device = HostDevice::open({.capacity_bytes = frames_ * default_host_frame_bytes,
                                                .ready_pool_frames = static_cast<std::size_t>(frames_)},
                                               headroom_);
  CHECK(device);
  device_ = std::make_shared<HostDevice>(*std::move(device));
}

std::unique_ptr<DataplaneThread> BenchDevice::start(const ReadStreamOptions& stream,
                                                    std::uint64_t read_bytes) {
  DataplaneThreadOptions options;
  options.stream = stream;
  options.loads.read_bytes_max = read_bytes;
  auto thread = DataplaneThread::start({.owner = std::shared_ptr<FrameOwner>(device_, &device_->owner()),
                                        .writer = std::shared_ptr<FrameWriter>(device_, &device_->writer())},
                                       std::make_unique<SimpleEviction>(), options);
  CHECK(thread);
  return *std::move(thread);
}

void BenchDevice::open_table(DataplaneThread& thread, TableId table,
                             const std::shared_ptr<CheckpointFile>& file) {
  auto source = std::make_shared<const TableSource>(TableSource{
      .layout = PageLayout::identity(file->identity().bytes, default_host_frame_bytes), .files = {file}});
  auto words = PageWords::create(source->layout.pages());
  CHECK(words);
  words_ = *words;
  CHECK(thread.mail().try_push(mail::OpenTable{.table = table,
                                               .kind = TableKind::file,
                                               .pages = source->layout.pages(),
                                               .source = source,
                                               .words = *words}));
}

void BenchDevice::wait_until_ready() const {
  CHECK(eventually([this] { return device_->owner().stats().ready == frames_; }));
}

double BenchDevice::huge_fraction() const {
  const HostFrameStats stats = device_->owner().stats();
  return 1.0 - static_cast<double>(stats.made_of_small_pages_total) / static_cast<double>(stats.made_total);
}

RequestDone ask_one(DataplaneThread& thread, PagerMail mail) {
  CHECK(thread.mail().try_push(std::move(mail)));
  std::vector<PagerNews> news;
  for (;;) {
    pollfd wait{.fd = thread.news().fd(), .events = POLLIN, .revents = 0};
    CHECK(::poll(&wait, 1, 60'000) == 1);
    news.clear();
    thread.news().drain(news);
    for (PagerNews& one : news) {
      if (auto* done = std::get_if<RequestDone>(&one)) return std::move(*done);
    }
  }
}

}  // namespace penstock::bench
