// SPDX-License-Identifier: Apache-2.0
#include "service/control/device_link.hpp"

#include <chrono>
#include <utility>

#include <fcntl.h>

namespace penstock {
namespace {
constexpr auto retry_when_full = std::chrono::milliseconds(1);

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;
}  // namespace

DeviceLink::DeviceLink(boost::asio::io_context& context, Description description, Mailbox<PagerMail>& mail,
                       Mailbox<PagerNews>& news, const PagerStats& stats)
    : description_(std::move(description)),
      mail_(mail),
      news_(news),
      stats_(stats),
      ready_(context, ::fcntl(news.fd(), F_DUPFD_CLOEXEC, 0)),
      retry_(context) {
  spares_.reserve(spares_max);
  for (std::size_t i = 0; i < spares_max; ++i) {
    const auto made = waiting_.emplace(RequestId{0}, nullptr).first;
    spares_.push_back(waiting_.extract(made));
  }
  wait();
}

DeviceLink::~DeviceLink() = default;

void DeviceLink::wait_for(RequestId request, Answer answer) {
  if (spares_.empty()) {
    waiting_.emplace(request, std::move(answer));
    return;
  }
  spares_.back().key() = request;
  spares_.back().mapped() = std::move(answer);
  waiting_.insert(std::move(spares_.back()));
  spares_.pop_back();
}

DeviceLink::Answer DeviceLink::take(RequestId request) {
  Waiting::node_type node = waiting_.extract(request);
  if (node.empty()) return {};
  Answer answer = std::exchange(node.mapped(), nullptr);
  if (spares_.size() < spares_max) spares_.push_back(std::move(node));
  return answer;
}

void DeviceLink::send(PagerMail mail) {
  if (backlog_.empty() && mail_.try_push(std::move(mail))) return;
  // NOLINTNEXTLINE(bugprone-use-after-move): what was not taken is untouched.
  backlog_.push_back(std::move(mail));
  flush();
}

void DeviceLink::flush() {
  while (!backlog_.empty() && mail_.try_push(std::move(backlog_.front()))) backlog_.pop_front();
  if (backlog_.empty() || stopped_) return;
  retry_.expires_after(retry_when_full);
  retry_.async_wait([this](const boost::system::error_code& error) {
    if (!error) flush();
  });
}

void DeviceLink::wait() {
  ready_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (error) return;
                      read_news();
                      if (!stopped_) wait();
                    });
}

void DeviceLink::read_news() {
  batch_.clear();
  news_.drain(batch_);
  for (const PagerNews& one : batch_) {
    std::visit(Overloaded{
                   [&](const RequestDone& done) {
                     if (const Answer answer = take(done.request)) answer(done);
                   },
                   [&](const PeerGone& gone) {
                     if (handlers_.peer_gone) handlers_.peer_gone(gone);
                   },
                   [&](const PagerDecision& decision) {
                     if (handlers_.decision) handlers_.decision(decision);
                   },
                   [&](const ConditionChanged& changed) {
                     if (handlers_.condition) handlers_.condition(changed);
                   },
                   [&](const PagerStopped& stopped) {
                     stopped_ = true;
                     if (handlers_.stopped) handlers_.stopped(stopped);
                   },
               },
               one);
  }
  flush();
}

}  // namespace penstock
