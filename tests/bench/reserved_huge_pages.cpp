// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/reserved_huge_pages.hpp"

#include <fstream>

namespace penstock::bench {
namespace {

constexpr const char* pool = "/proc/sys/vm/nr_hugepages";

int pool_size() {
  int pages = 0;
  std::ifstream(pool) >> pages;
  return pages;
}

}  // namespace

ReservedHugePages::ReservedHugePages(int pages) : before_(pool_size()) {
  if (before_ < pages) {
    std::ofstream(pool) << pages;
    changed_ = true;
  }
  available_ = pool_size() >= pages;
}

ReservedHugePages::~ReservedHugePages() {
  if (changed_) std::ofstream(pool) << before_;
}

}  // namespace penstock::bench
