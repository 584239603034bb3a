// SPDX-License-Identifier: Apache-2.0
// Kinds of failure as the numbers of the C interface, and the text of each thread's last failure.
#pragma once

#include "dataplane/base/failure.hpp"
#include "dataplane/base/result.hpp"
#include "service/client/include/penstock.h"

namespace penstock {

pst_status to_status(FailureKind kind);
// "done" for PST_DONE; nullptr for a number that is none.
const char* status_name(pst_status status);

// Keeps the text for pst_last_error of this thread and gives the number to return. `client` is only compared; null: of
// pst_connect.
pst_status report(const void* client, const Failure& failure);
inline pst_status report(const void* client, const Outcome<void>& outcome) {
  return outcome ? PST_DONE : report(client, outcome.error());
}
const char* last_message(const void* client);
const char* last_hint(const void* client);

// An Error of this process at its edge: `what` says what was tried.
Failure to_failure(const Error& error, const char* what);

}  // namespace penstock
