// SPDX-License-Identifier: Apache-2.0
// Reserves huge pages for the time of a benchmark, for fio's sake.
#pragma once

namespace penstock::bench {

class ReservedHugePages {
 public:
  // Raises the pool to at least `pages`; needs root. The former size comes back at the end.
  explicit ReservedHugePages(int pages);
  ReservedHugePages(const ReservedHugePages&) = delete;
  ReservedHugePages& operator=(const ReservedHugePages&) = delete;
  ~ReservedHugePages();

  bool available() const { return available_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  bool available_ = false;
};

}  // namespace penstock::bench
