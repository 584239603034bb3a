// SPDX-License-Identifier: Apache-2.0
#include "service/cli/service_link.hpp"

#include <string_view>

namespace penstock {
namespace {

FailureKind kind_of(pst_status status) {
  const std::string_view name = pst_status_name(status);
  for (int i = 0; i <= static_cast<int>(FailureKind::internal); ++i) {
    const auto kind = static_cast<FailureKind>(i);
    if (failure_kind_name(kind) == name) return kind;
  }
  return FailureKind::internal;
}

}  // namespace

Failure ServiceLink::last_failure(pst_status status) const {
  return {kind_of(status), pst_last_error(client_.get()), pst_last_hint(client_.get())};
}

Outcome<ServiceLink> ServiceLink::connect(const Context& context) {
  pst_connect_options options{};
  options.size = sizeof options;
  options.socket = context.socket.c_str();
  options.name = "penstock";
  options.no_reconnect = 1;
  pst_client* client = nullptr;
  const pst_status status = pst_connect(&options, &client);
  if (status != PST_DONE) {
    return tl::unexpected<Failure>(Failure{kind_of(status), pst_last_error(nullptr), pst_last_hint(nullptr)});
  }
  return ServiceLink(client);
}

Outcome<Json> ServiceLink::ask(const char* what, const Json& arguments) const {
  char* text = nullptr;
  const pst_status status = pst_query(client_.get(), what, arguments.dump().c_str(), &text);
  if (status != PST_DONE) return tl::unexpected<Failure>(last_failure(status));
  Json answer = Json::parse(text, nullptr, false);
  pst_release_text(text);
  if (!answer.is_object())
    return fail(FailureKind::protocol_violation, "the service answered what is no JSON object");
  return answer;
}

Outcome<std::uint64_t> ServiceLink::open(const std::string& path) const {
  pst_checkpoint* checkpoint = nullptr;
  pst_status status = pst_open(client_.get(), path.c_str(), &checkpoint);
  if (status != PST_DONE) return tl::unexpected<Failure>(last_failure(status));
  pst_checkpoint_info info{};
  info.size = sizeof info;
  status = pst_checkpoint_describe(checkpoint, &info);
  if (status != PST_DONE) return tl::unexpected<Failure>(last_failure(status));
  return info.handle;
}

int report_service_failure(const Context& context, const Failure& failure) {
  const int code = context.report(failure);
  return failure.kind == FailureKind::unreachable ? exit_unreachable : code;
}

}  // namespace penstock
