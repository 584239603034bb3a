// SPDX-License-Identifier: Apache-2.0
// A mailbox between a service and a device whose end the test plays.
#pragma once

#include <memory>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/mailbox.hpp"

namespace penstock::test {

template <class Message>
std::unique_ptr<Mailbox<Message>> open_mailbox() {
  auto mailbox = Mailbox<Message>::create(64);
  CHECK(mailbox);
  return *std::move(mailbox);
}

}  // namespace penstock::test
