// SPDX-License-Identifier: Apache-2.0
// The command line as a function, from words to exit code.
#pragma once

namespace penstock {

int run_program(int count, const char* const* words);

}  // namespace penstock
