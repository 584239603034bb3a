// SPDX-License-Identifier: Apache-2.0
// IndexLists: numbers 0 ... n-1, each in exactly one of a few ordered lists. Nothing is allocated after
// construction.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/base/check.hpp"

namespace penstock {

// `List` is an enum class that counts from 0; all numbers begin in List{0}, in order.
template <class List>
class IndexLists {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  IndexLists(std::uint32_t numbers, std::uint32_t lists) : links_(numbers), ends_(lists) {
    for (std::uint32_t number = 0; number < numbers; ++number) append(List{}, number);
  }

  std::uint32_t first(List list) const { return ends_[place(list)].first; }
  std::uint32_t next(std::uint32_t number) const { return links_[number].next; }
  bool empty(List list) const { return first(list) == none; }
  List list_of(std::uint32_t number) const { return links_[number].list; }
  std::uint32_t numbers() const { return static_cast<std::uint32_t>(links_.size()); }

  void move_to_back(List list, std::uint32_t number) {
    unlink(number);
    append(list, number);
  }
  void move_to_front(List list, std::uint32_t number) {
    unlink(number);
    Ends& ends = ends_[place(list)];
    links_[number] = Link{.list = list, .previous = none, .next = ends.first};
    (ends.first == none ? ends.last : links_[ends.first].previous) = number;
    ends.first = number;
  }

 private:
  struct Link {
    List list{};
    std::uint32_t previous = none;
    std::uint32_t next = none;
  };
  struct Ends {
    std::uint32_t first = none;
    std::uint32_t last = none;
  };
  static std::size_t place(List list) { return static_cast<std::size_t>(list); }

  void append(List list, std::uint32_t number) {
    Ends& ends = ends_[place(list)];
    links_[number] = Link{.list = list, .previous = ends.last, .next = none};
    (ends.last == none ? ends.first : links_[ends.last].next) = number;
    ends.last = number;
  }
  void unlink(std::uint32_t number) {
    const Link link = links_[number];
    Ends& ends = ends_[place(link.list)];
    (link.previous == none ? ends.first : links_[link.previous].next) = link.next;
    (link.next == none ? ends.last : links_[link.next].previous) = link.previous;
  }

  std::vector<Link> links_;
  std::vector<Ends> ends_;
};

}  // namespace penstock
