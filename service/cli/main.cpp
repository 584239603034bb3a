// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "service/cli/program.hpp"

int main(int count, char** words) {
  // A closed pipe is an error of a write, with a message, and not the end of the program.
  std::signal(SIGPIPE, SIG_IGN);
  return penstock::run_program(count, words);
}
