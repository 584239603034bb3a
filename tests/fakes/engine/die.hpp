// SPDX-License-Identifier: Apache-2.0
// A caller broke a rule that a real driver answers with undefined behaviour: say which, and abort.
#pragma once

namespace penstock::fake {

[[noreturn, gnu::format(printf, 1, 2)]] void die(const char* format, ...);

}  // namespace penstock::fake
