// SPDX-License-Identifier: Apache-2.0
// ScriptedPort: a client's socket whose client is the test.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "dataplane/base/check.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/pager/peer_port.hpp"

namespace penstock::test {

struct SentPage {
  std::uint32_t table = 0, page = 0;
  std::uint64_t generation = 0;
  bool writable = false;
  UniqueFd file;  // As the client received it.
};
struct SentGrants {
  std::uint32_t batch = 0;
  std::vector<SentPage> pages;
  std::optional<PeerCompletion> completes;
};
struct SentRevoke {
  std::uint32_t table = 0, page = 0;
  std::uint64_t generation = 0;
};
struct SentClosing {};
using Sent = std::variant<SentGrants, SentRevoke, PeerCompletion, SentClosing>;

class ScriptedPort final : public PeerPort {
 public:
  // What the client says next.
  void say(const PeerMessage& message, std::uint32_t acknowledges = 0) {
    inbound_.push_back({message, acknowledges});
  }
  void hang_up() { closed_ = true; }
  void say_garbage() { garbage_ = true; }
  // How sends fail from now on; nullopt: they work.
  void refuse_sends(std::optional<Errc> code) { refusal_ = code; }
  // What the client does as soon as it has been sent something.
  void on_sent(std::function<void()> react) { react_ = std::move(react); }

  std::size_t sent_count() const { return sent_.size(); }
  // The next message that was sent, oldest first; CHECKs that there is one of this type.
  template <class Message>
  Message take() {
    CHECK(!sent_.empty() && std::holds_alternative<Message>(sent_.front()));
    Message message = std::move(std::get<Message>(sent_.front()));
    sent_.pop_front();
    return message;
  }
  std::deque<Sent>& sent() { return sent_; }

  int fd() const override { return -1; }
  Result<std::optional<PeerDatagram>> receive() override;
  Result<> send_grants(std::uint32_t batch, std::span<const GrantedPage> pages,
                       std::optional<PeerCompletion> completes) override;
  Result<> send_revoke(std::uint32_t table, std::uint32_t page, std::uint64_t generation) override;
  Result<> send_completion(const PeerCompletion& completion) override;
  Result<> send_closing() override;

 private:
  Result<> refused() const;
  Result<> send(Sent message);

  std::deque<PeerDatagram> inbound_;
  std::deque<Sent> sent_;
  std::optional<Errc> refusal_;
  std::function<void()> react_;
  bool closed_ = false;
  bool garbage_ = false;
};

// What the pager owns of it, so that the test can still read what was sent after the session's end.
class PortToScript final : public PeerPort {
 public:
  explicit PortToScript(ScriptedPort& script) : script_(script) {}
  int fd() const override { return script_.fd(); }
  Result<std::optional<PeerDatagram>> receive() override { return script_.receive(); }
  Result<> send_grants(std::uint32_t batch, std::span<const GrantedPage> pages,
                       std::optional<PeerCompletion> completes) override {
    return script_.send_grants(batch, pages, completes);
  }
  Result<> send_revoke(std::uint32_t table, std::uint32_t page, std::uint64_t generation) override {
    return script_.send_revoke(table, page, generation);
  }
  Result<> send_completion(const PeerCompletion& completion) override {
    return script_.send_completion(completion);
  }
  Result<> send_closing() override { return script_.send_closing(); }

 private:
  ScriptedPort& script_;
};

}  // namespace penstock::test
