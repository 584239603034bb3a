// SPDX-License-Identifier: Apache-2.0
// DataplaneThread: one device's thread. It owns the pager, its reader and its poll loop, and reads the clock.
//
// The caller talks to it through mail() and news() alone; figures are in stats(). The destructor stops it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/mailbox.hpp"
#include "dataplane/core/eviction_policy.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/io/open_reader.hpp"
#include "dataplane/io/pinned_ring.hpp"
#include "dataplane/io/read_stream.hpp"
#include "dataplane/pager/load_pipeline.hpp"
#include "dataplane/pager/mail.hpp"
#include "dataplane/pager/pager.hpp"
#include "dataplane/pager/poll_loop.hpp"
#include "dataplane/pager/stats.hpp"

namespace penstock {

struct DataplaneThreadOptions {
  std::string name = "penstock-host";  // Of the thread; 15 bytes show.
  PinnedRingOptions ring;
  ReaderOptions reader;
  ReadStreamOptions stream{.bulk_bytes_in_flight = 16ull << 20};
  LoadPipelineOptions loads;
  std::shared_ptr<HostTier> tier;  // Null: pages are filled from their files alone.
  PagerOptions pager;
  // How long after a fault the thread looks for the client's next message before it sleeps, yielding the processor.
  Nanoseconds linger = std::chrono::microseconds(50);
  std::size_t mail_messages = 1024;
  std::size_t news_messages = 8192;
};

// The two halves of a device, kept alive as long as either is in use. Both may come from one object.
struct SharedDevice {
  std::shared_ptr<FrameOwner> owner;
  std::shared_ptr<FrameWriter> writer;
};

class DataplaneThread {
 public:
  // Called on the new thread. `ring` outlives the reader.
  using ReaderMaker = std::function<Outcome<OpenedReader>(const PinnedRing* ring)>;

  // Returns when the reader is open. Without `make_reader`: open_reader(options.reader).
  static Outcome<std::unique_ptr<DataplaneThread>> start(SharedDevice device,
                                                         std::unique_ptr<EvictionPolicy> policy,
                                                         const DataplaneThreadOptions& options,
                                                         ReaderMaker make_reader = {});
  // Stops: cancels reads, waits until they have ended, at most the pager's stop deadline, and joins the thread. What a
  // stuck read may still write to is left behind for the rest of the process's life.
  ~DataplaneThread();
  DataplaneThread(const DataplaneThread&) = delete;
  DataplaneThread& operator=(const DataplaneThread&) = delete;

  Mailbox<PagerMail>& mail() { return *mail_; }
  Mailbox<PagerNews>& news() { return *news_; }
  const PagerStats& stats() const { return stats_; }
  const ReaderReport& reader() const { return report_; }

 private:
  DataplaneThread(SharedDevice device, std::unique_ptr<EvictionPolicy> policy,
                  const DataplaneThreadOptions& options, ReaderMaker make_reader);
  Outcome<std::unique_ptr<LoadPipeline>> open_pipeline();
  Result<> join_tier();
  Outcome<void> open_on_thread();
  void run();
  std::optional<Nanoseconds> time_to_wait(Nanoseconds now) const;

  SharedDevice device_;
  std::unique_ptr<EvictionPolicy> policy_;
  const DataplaneThreadOptions options_;
  const ReaderMaker make_reader_;
  std::unique_ptr<Mailbox<PagerMail>> mail_;
  std::unique_ptr<Mailbox<PagerNews>> news_;
  std::unique_ptr<PollLoop> loop_;
  TierAccess tier_;
  PagerStats stats_;
  ReaderReport report_;           // Written before start() returns.
  std::unique_ptr<Pager> pager_;  // The thread's.
  std::thread thread_;
};

}  // namespace penstock
