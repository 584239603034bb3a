// SPDX-License-Identifier: Apache-2.0
// The start of a connection: connect, say hello, read what the service says of itself.
#pragma once

#include <string>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "service/protocol/control_messages.hpp"

namespace penstock {

inline constexpr const char* library_version = "0.1.0";

struct Greeted {
  UniqueFd socket;
  wire::HelloReply reply;
};

// unreachable: no service listens there. not_permitted: its socket is not for this user. protocol_mismatch: the text has
// both numbers. deadline, closing.
Outcome<Greeted> greet(const std::string& path, const std::string& name, Nanoseconds deadline);

}  // namespace penstock
