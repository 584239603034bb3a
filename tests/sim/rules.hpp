// SPDX-License-Identifier: Apache-2.0
// The rules that the simulation holds the pager core to; DESIGN.md says each in full.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::sim {

enum class Rule : std::uint8_t {
  budget,        // P1: used <= budget when a load starts.
  pins,          // P2: a page that a client has pinned, or has at all, is not taken.
  tickets,       // P3: each ticket completes exactly once, with what it says.
  bytes,         // P4: what a client sees is what the page holds.
  need,          // P5: no eviction beyond need.
  progress,      // P6: when clients fall silent every ticket completes.
  conservation,  // P7: slots and frames are conserved.
  closing,       // P8: a closed session or table leaves nothing.
  protocol,      // P0: what PROTOCOL.md promises a client about grants, revokes and generations.
};

// Stops the process unless the rule holds. The line on stderr starts with the rule's number and ends with
// `what`.
void must(Rule rule, bool holds, std::string_view what);

}  // namespace penstock::sim
