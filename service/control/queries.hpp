// SPDX-License-Identifier: Apache-2.0
// Questions in JSON: status, explain, load, evict, doctor, scrub; the answers are those of the command line (one object each).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "service/control/session.hpp"

namespace penstock {

class Queries {
 public:
  Queries(ServiceState& service, Session& session) : service_(service), session_(session) {}
  // Answers the session's request, maybe later.
  void run(std::uint64_t request, const wire::Query& query);

 private:
  void load(std::uint64_t request, const nlohmann::json& arguments);
  void evict(std::uint64_t request, const nlohmann::json& arguments);
  void scrub(std::uint64_t request, const nlohmann::json& arguments);
  // The tables of what the arguments name: all, a checkpoint's id, or one that this client has open.
  Outcome<std::vector<std::shared_ptr<SharedTable>>> tables_named(const nlohmann::json& arguments,
                                                                  std::string_view verb);
  // Of what the same arguments name.
  std::shared_ptr<Checkpoint> checkpoint_named(const nlohmann::json& arguments) const;
  nlohmann::json forget_idle(const nlohmann::json& arguments);
  void explain(std::uint64_t request, const nlohmann::json& arguments);
  // Answers with a text about the devices, once their figures show all that was answered before.
  void show(std::uint64_t request, std::string (Queries::*text)() const);
  std::string status() const;
  std::string doctor() const;
  // May this client be shown the path, or evict the pages, of the checkpoint?
  bool concerns(const Checkpoint& checkpoint) const;

  ServiceState& service_;
  Session& session_;
};

}  // namespace penstock
