// SPDX-License-Identifier: Apache-2.0
// Runs code in a forked child, for what would spoil the test's own process: filters, rights, limits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace penstock::test {

// What `body` returned, or "child died with status N". REQUIRES: no other thread of this process holds a lock that
// `body` needs.
std::string in_child(const std::function<std::string()>& body);

// From now on the system calls with these numbers fail with `error`, in this thread and what it starts. For children.
void deny_system_calls(std::uint32_t first, std::uint32_t last, int error);
// Becomes uid and gid 65534 without any capability, with this limit of locked memory. Aborts when not root.
void drop_rights(std::uint64_t locked_memory_bytes);

}  // namespace penstock::test
