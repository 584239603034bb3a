// SPDX-License-Identifier: Apache-2.0
// The service thread's end of one device: mail to its dataplane thread, news back, figures. Service thread only.
//
// Order of mail is kept. When the mailbox is full the rest waits here and goes out with the next news or tick, so no
// caller has to handle "full"; what may wait is bounded by the sessions and requests that the service admits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "dataplane/base/mailbox.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/pager/mail.hpp"
#include "dataplane/pager/stats.hpp"

namespace penstock {

class DeviceLink {
 public:
  struct Description {
    std::string id;    // "host"
    std::string kind;  // "host", "cuda", "hip"
    DeviceLimits limits;
  };
  struct NewsHandlers {
    std::function<void(const PeerGone&)> peer_gone;
    std::function<void(const PagerDecision&)> decision;
    std::function<void(const PagerStopped&)> stopped;
    std::function<void(const ConditionChanged&)> condition;
  };
  using Answer = std::function<void(const RequestDone&)>;

  DeviceLink(boost::asio::io_context& context, Description description, Mailbox<PagerMail>& mail,
             Mailbox<PagerNews>& news, const PagerStats& stats);
  ~DeviceLink();
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;

  void on_news(NewsHandlers handlers) { handlers_ = std::move(handlers); }
  void send(PagerMail mail);
  // Numbers the request and answers exactly once, unless the link is closed before. `mail` has a member `request`.
  template <class Request>
  RequestId ask(Request mail, Answer answer) {
    const RequestId id{++last_request_};
    mail.request = id;
    wait_for(id, std::move(answer));
    send(std::move(mail));
    return id;
  }
  // The answer is no longer wanted; the request goes on.
  void forget(RequestId request) { take(request); }

  const Description& description() const { return description_; }
  const PagerStats& stats() const { return stats_; }
  bool stopped() const { return stopped_; }

 private:
  void wait();
  void wait_for(RequestId request, Answer answer);
  Answer take(RequestId request);
  void read_news();
  void flush();

  Description description_;
  Mailbox<PagerMail>& mail_;
  Mailbox<PagerNews>& news_;
  const PagerStats& stats_;
  boost::asio::posix::stream_descriptor ready_;
  boost::asio::steady_timer retry_;
  NewsHandlers handlers_;
  std::deque<PagerMail> backlog_;
  using Waiting = std::map<RequestId, Answer>;
  Waiting waiting_;
  static constexpr std::size_t spares_max = 16;
  std::vector<Waiting::node_type> spares_;  // For requests to come, so that they need no allocation.
  std::vector<PagerNews> batch_;
  std::uint64_t last_request_ = 0;
  bool stopped_ = false;
};

}  // namespace penstock
