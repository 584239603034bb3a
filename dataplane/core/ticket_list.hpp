// SPDX-License-Identifier: Apache-2.0
// LinkedList: a doubly linked list through a member of its elements, so that a request costs no allocation.
// The list owns nothing. An element may be in several lists, through different members.
#pragma once

#include "dataplane/base/check.hpp"

namespace penstock {

template <class T>
struct ListLink {
  T* previous = nullptr;
  T* next = nullptr;
  bool linked = false;
};

template <class T, ListLink<T> T::*member>
class LinkedList {
 public:
  bool empty() const { return first_ == nullptr; }
  T* first() const { return first_; }
  T* last() const { return last_; }
  static T* after(const T& element) { return (element.*member).next; }
  static T* before(const T& element) { return (element.*member).previous; }
  static bool contains(const T& element) { return (element.*member).linked; }

  void push_back(T& element) { insert_after(last_, element); }

  // Puts `element` behind `place`, or first when `place` is null.
  void insert_after(T* place, T& element) {
    ListLink<T>& link = element.*member;
    CHECK(!link.linked);
    T* next = place == nullptr ? first_ : (place->*member).next;
    link = {.previous = place, .next = next, .linked = true};
    (place == nullptr ? first_ : (place->*member).next) = &element;
    (next == nullptr ? last_ : (next->*member).previous) = &element;
  }

  void remove(T& element) {
    ListLink<T>& link = element.*member;
    CHECK(link.linked);
    (link.previous == nullptr ? first_ : (link.previous->*member).next) = link.next;
    (link.next == nullptr ? last_ : (link.next->*member).previous) = link.previous;
    link = {};
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace penstock
