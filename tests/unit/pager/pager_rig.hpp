// SPDX-License-Identifier: Apache-2.0
// A Pager whose clients, service, time and reads are the test. One thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/pager/pager.hpp"
#include "tests/support/faulty_device.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/pager/plain_device.hpp"
#include "tests/unit/pager/scripted_port.hpp"
#include "tests/unit/pager/step_reader.hpp"

namespace penstock::test {

struct PagerRigOptions {
  PlainDevice::Options device{};
  PagerOptions pager{};
  std::size_t news_messages = 1024;
  bool scrubs = false;  // On a thread of its own, as on host memory.
  std::unique_ptr<FrameSummer> summer = nullptr;
};

class RecordedWatch final : public PeerWatch {
 public:
  void add(SessionId session, int) override { writable.emplace(session, false); }
  void set_writable(SessionId session, int, bool watched) override { writable.at(session) = watched; }
  void remove(SessionId session, int) override { writable.erase(session); }

  std::map<SessionId, bool> writable;  // The sessions that are watched.
};

class PagerRig {
 public:
  explicit PagerRig(PagerRigOptions options = {});

  ScriptedPort* open_session(std::uint32_t session, std::uint64_t private_bytes_max = 0);
  // Opens a table with the identity layout over a file of patterned bytes.
  TableId open_file(std::uint32_t table, std::uint64_t bytes);
  void open_private(std::uint32_t table, TableKind kind, std::uint32_t pages, std::uint32_t owner,
                    std::uint32_t origin = 0);
  std::shared_ptr<PinWords> attach(std::uint32_t session, std::uint32_t table, std::uint32_t pages,
                                   RevokeMode mode = RevokeMode::agent);
  // The usual start: session 1 on table 1, a file of `bytes`.
  ScriptedPort* start(std::uint64_t bytes);
  void mail(PagerMail message);

  // One turn that looks at all clients.
  void turn();
  // Turns until nothing more happens by itself.
  void settle();
  void advance(Nanoseconds by) { now += by; }

  template <class News>
  std::vector<News> take_news() {
    std::vector<PagerNews> batch;
    news->drain(batch);
    for (PagerNews& one : batch) kept_.push_back(std::move(one));
    std::vector<News> found;
    std::vector<PagerNews> others;
    for (PagerNews& one : kept_) {
      if (std::holds_alternative<News>(one)) {
        found.push_back(std::get<News>(std::move(one)));
      } else {
        others.push_back(std::move(one));
      }
    }
    kept_ = std::move(others);
    return found;
  }
  static std::vector<std::byte> content(const SentPage& page);
  Residency residency(std::uint32_t table, std::uint32_t page) {
    return static_cast<Residency>(words.at(table)->load(page) >> 62);
  }

  static constexpr std::uint64_t frame = 64 * 1024;
  TemporaryFolder folder;
  PlainDevice device;
  FaultyDevice checked;
  StepReader* reader = nullptr;
  RecordedWatch watch;
  PagerStats stats;
  std::unique_ptr<Mailbox<PagerMail>> mailbox;
  std::unique_ptr<Mailbox<PagerNews>> news;
  std::map<std::uint32_t, std::shared_ptr<PageWords>> words;
  std::map<std::uint32_t, std::string> paths;
  Nanoseconds now{std::chrono::seconds(100)};

 private:
  std::deque<ScriptedPort> scripts_;  // Outlive the pager.

 public:
  std::unique_ptr<Pager> pager;

 private:
  std::vector<PagerNews> kept_;
};

}  // namespace penstock::test
