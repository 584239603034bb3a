// SPDX-License-Identifier: Apache-2.0
// A command's connection to the service, through the client library.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dataplane/base/failure.hpp"
#include "service/cli/context.hpp"
#include "service/client/include/penstock.h"

namespace penstock {

class ServiceLink {
 public:
  static Outcome<ServiceLink> connect(const Context& context);

  // One question; the answer is the command's JSON object.
  Outcome<Json> ask(const char* what, const Json& arguments = Json::object()) const;
  // A checkpoint file as a handle that `load` and `evict` take; open while the link is.
  Outcome<std::uint64_t> open(const std::string& path) const;

 private:
  struct Close {
    void operator()(pst_client* client) const { pst_disconnect(client); }
  };
  explicit ServiceLink(pst_client* client) : client_(client) {}
  Failure last_failure(pst_status status) const;

  std::unique_ptr<pst_client, Close> client_;
};

// Reports the failure; exit code 3 when the service can't be reached.
int report_service_failure(const Context& context, const Failure& failure);

}  // namespace penstock
