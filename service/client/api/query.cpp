// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "dataplane/base/quote.hpp"
#include "service/client/api/handles.hpp"
#include "service/protocol/sealed_blob.hpp"

namespace penstock {
namespace {

struct Question {
  std::string_view name;
  wire::QueryKind kind;
};
constexpr std::array questions{
    Question{"status", wire::QueryKind::status}, Question{"explain", wire::QueryKind::explain},
    Question{"load", wire::QueryKind::load},     Question{"evict", wire::QueryKind::evict},
    Question{"doctor", wire::QueryKind::doctor}, Question{"scrub", wire::QueryKind::scrub}};
// Silence that is allowed; a load tells its progress meanwhile.
constexpr Nanoseconds silence_max = std::chrono::seconds(120);

// For a caller that is C: released with free().
char* copy_text(std::string_view text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) return nullptr;
  text.copy(copy, text.size());
  copy[text.size()] = '\0';
  return copy;
}

}  // namespace

pst_status query(pst_client* client, const char* what, std::string arguments, char** json) {
  const auto* const found =
      std::find_if(questions.begin(), questions.end(), [&](const Question& one) { return one.name == what; });
  if (found == questions.end()) {
    return report(client,
                  Failure{FailureKind::invalid_argument, fmt::format("{} is no question", quote(what)),
                          "status, explain, load, evict, doctor"});
  }
  const auto reply = client->client->ask<wire::QueryReply>(wire::Query{found->kind, std::move(arguments)},
                                                           client->client->patience(silence_max));
  if (!reply) return report(client, reply.error());
  const auto& told = std::get<wire::QueryReply>(reply->message);
  if (reply->fds.size() == 0) {
    *json = copy_text(told.json);
  } else {
    if (told.json_bytes == 0) return report_invalid(client, "the service sent an empty answer");
    const auto blob = map_sealed_blob(reply->fds[0], told.json_bytes);
    if (!blob) return report(client, to_failure(blob.error(), "the answer can't be mapped"));
    *json = copy_text({reinterpret_cast<const char*>(blob->data()), told.json_bytes});
  }
  return *json != nullptr ? PST_DONE
                          : report(client, Failure{FailureKind::exhausted, "no memory for the answer", ""});
}

}  // namespace penstock
