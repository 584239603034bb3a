// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pager/scripted_port.hpp"

#include <utility>

#include <fcntl.h>

namespace penstock::test {

Result<> ScriptedPort::refused() const {
  if (closed_) return Error{.code = Errc::closed, .operation = "send"};
  if (refusal_) return Error{.code = *refusal_, .operation = "send"};
  return {};
}

Result<> ScriptedPort::send(Sent message) {
  sent_.push_back(std::move(message));
  if (react_) react_();
  return {};
}

Result<std::optional<PeerDatagram>> ScriptedPort::receive() {
  if (!inbound_.empty()) {
    const PeerDatagram message = inbound_.front();
    inbound_.pop_front();
    return std::optional<PeerDatagram>(message);
  }
  if (garbage_) return Error{.code = Errc::protocol, .operation = "receive"};
  if (closed_) return Error{.code = Errc::closed, .operation = "receive"};
  return std::optional<PeerDatagram>();
}

Result<> ScriptedPort::send_grants(std::uint32_t batch, std::span<const GrantedPage> pages,
                                   std::optional<PeerCompletion> completes) {
  TRY(refused());
  SentGrants grants{.batch = batch, .pages = {}, .completes = completes};
  for (const GrantedPage& page : pages) {
    grants.pages.push_back({.table = page.table,
                            .page = page.page,
                            .generation = page.generation,
                            .writable = page.writable,
                            .file = UniqueFd(::fcntl(page.fd, F_DUPFD_CLOEXEC, 0))});
  }
  return send(std::move(grants));
}

Result<> ScriptedPort::send_revoke(std::uint32_t table, std::uint32_t page, std::uint64_t generation) {
  TRY(refused());
  return send(SentRevoke{.table = table, .page = page, .generation = generation});
}

Result<> ScriptedPort::send_completion(const PeerCompletion& completion) {
  TRY(refused());
  return send(completion);
}

Result<> ScriptedPort::send_closing() {
  TRY(refused());
  return send(SentClosing{});
}

}  // namespace penstock::test
