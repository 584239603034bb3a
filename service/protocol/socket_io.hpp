// SPDX-License-Identifier: Apache-2.0
// One message over a SEQPACKET socket, with descriptors. PROTOCOL.md, section 3, has the rules. No
// allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "dataplane/base/result.hpp"
#include "service/protocol/unique_fds.hpp"

namespace penstock {

enum class Wait : std::uint8_t { no, yes };  // yes: block until it is done, whatever the socket's flags say.

// All or nothing. Descriptors are borrowed. REQUIRES: not empty, at most PSTW_DESCRIPTORS_MAX descriptors.
//   Errc::busy       the socket is full: writable later
//   Errc::exhausted  too many descriptors of this user are unread, or no memory: try again later, no event
//   tells when Errc::closed     the peer is gone
Result<> send_message(int fd, std::span<const std::byte> message, std::span<const int> descriptors = {},
                      Wait wait = Wait::no);

// Length of the message, above zero; `descriptors` is emptied first and then holds what came with it,
// close-on-exec.
//   Errc::busy       nothing there
//   Errc::closed     hang-up (an empty message reads as one)
//   Errc::exhausted  descriptors were lost because this process is out of them; those that came are closed.
//   The
//                    message itself is in `buffer`, its length in Error::native.
//   Errc::protocol   longer than `buffer`, or more than PSTW_DESCRIPTORS_MAX descriptors; those that came are
//   closed
Result<std::size_t> receive_message(int fd, std::span<std::byte> buffer, UniqueFds& descriptors,
                                    Wait wait = Wait::no);

// The same for a direction in which no descriptor may come: one that does is Errc::protocol, and is never
// installed.
Result<std::size_t> receive_plain_message(int fd, std::span<std::byte> buffer, Wait wait = Wait::no);

// A connected pair, close-on-exec, blocking.
Result<std::pair<UniqueFd, UniqueFd>> make_socket_pair();

}  // namespace penstock
