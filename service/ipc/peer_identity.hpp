// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a control socket: its credentials at connect, and a pidfd, which stays that process's
// for ever. A number or a name alone never identifies a client.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

struct PeerIdentity {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int32_t pid = 0;
  UniqueFd pidfd;       // Readable when the process has ended. Empty where the kernel gives none.
  std::string command;  // /proc/PID/comm at connect: shown to people only.
};

Result<PeerIdentity> identify_peer(int socket);
// Member of the group by its primary group or by the group database.
bool is_member(const PeerIdentity& peer, const std::string& group);

}  // namespace penstock
