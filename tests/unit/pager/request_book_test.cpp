// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/request_book.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(RequestBook, FindsWhatIsOpenAndNothingElse) {
  RequestBook book;
  EXPECT_EQ(book.find(Ticket{}), nullptr);
  const Ticket ticket = book.open({.session = SessionId{2}, .peer_request = 77});
  ASSERT_NE(book.find(ticket), nullptr);
  EXPECT_EQ(book.find(ticket)->peer_request, 77u);
  EXPECT_EQ(book.find(SessionId{2}, 77), ticket);
  EXPECT_FALSE(book.find(SessionId{3}, 77).has_value());
  book.close(ticket);
  EXPECT_EQ(book.find(ticket), nullptr);
  EXPECT_FALSE(book.find(SessionId{2}, 77).has_value());
  EXPECT_EQ(book.size(), 0u);
}

TEST(RequestBook, NeverGivesATicketTwice) {
  RequestBook book;
  const Ticket first = book.open({});
  book.close(first);
  const Ticket second = book.open({});
  EXPECT_NE(first, second);
  EXPECT_EQ(book.find(first), nullptr);
  EXPECT_NE(book.find(second), nullptr);
}

TEST(RequestBook, CollectsTheRequestsOfOneSession) {
  RequestBook book;
  const Ticket mine = book.open({.kind = OpenRequest::Kind::fault, .session = SessionId{1}});
  book.open({.kind = OpenRequest::Kind::fault, .session = SessionId{2}});
  book.open({.kind = OpenRequest::Kind::load_table});
  std::vector<Ticket> tickets;
  book.collect(SessionId{1}, tickets);
  EXPECT_EQ(tickets, std::vector{mine});
  tickets.clear();
  book.collect(std::nullopt, tickets);
  EXPECT_EQ(tickets.size(), 3u);
}

}  // namespace
}  // namespace penstock
