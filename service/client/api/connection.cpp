// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>

#include "dataplane/base/quote.hpp"
#include "service/client/api/handles.hpp"
#include "service/client/greeting.hpp"
#include "service/client/program_context.hpp"

namespace penstock {

pst_status report_forked(const pst_client* owner) {
  return report(owner,
                Failure{FailureKind::forked, "this handle was inherited by fork: a child has no tensors",
                        "connect in the child itself"});
}

pst_status report_invalid(const pst_client* owner, const char* what) {
  return report(owner, Failure{FailureKind::invalid_argument, what, ""});
}

Nanoseconds time_of(std::uint64_t timeout_ns) {
  constexpr std::uint64_t far = 10ull * 365 * 24 * 3600 * 1'000'000'000;
  return timeout_ns > far ? never : Nanoseconds(static_cast<std::int64_t>(timeout_ns));
}

Nanoseconds deadline_after(std::uint64_t timeout_ns) { return deadline_in(time_of(timeout_ns)); }

namespace {

constexpr Nanoseconds default_connect_timeout = std::chrono::seconds(5);

std::string socket_path(const char* given) {
  if (given != nullptr) return given;
  const char* const named = std::getenv("PENSTOCK_SOCKET");
  return named != nullptr && *named != '\0' ? named : "/run/penstock/penstock.sock";
}

}  // namespace
}  // namespace penstock

using namespace penstock;

const char* pst_status_name(pst_status status) {
  const char* const name = status_name(status);
  return name == nullptr ? "internal" : name;
}

const char* pst_version(void) { return library_version; }

const char* pst_last_error(const pst_client* client) { return last_message(client); }

const char* pst_last_hint(const pst_client* client) { return last_hint(client); }

pst_status pst_connect(const pst_connect_options* options, pst_client** client) {
  if (client == nullptr) return report_invalid(nullptr, "a null pointer");
  *client = nullptr;
  const pst_connect_options given = copy_in(options);
  const bool calls_back = given.event_delivery == PST_EVENTS_CALLBACK;
  if (given.event_delivery > PST_EVENTS_CALLBACK || calls_back != (given.callback != nullptr)) {
    return report_invalid(nullptr, "a callback goes with PST_EVENTS_CALLBACK, and with nothing else");
  }
  const Nanoseconds answer_timeout = given.answer_timeout_ns == 0 ? never : time_of(given.answer_timeout_ns);
  auto connected = Client::connect(
      {.socket = socket_path(given.socket),
       .name = given.name != nullptr ? given.name : ::program_invocation_short_name,
       .connect_timeout = given.connect_timeout_ns == 0 ? std::min(default_connect_timeout, answer_timeout)
                                                        : time_of(given.connect_timeout_ns),
       .answer_timeout = answer_timeout,
       .reconnect = given.no_reconnect == 0,
       .callback = given.callback,
       .callback_context = given.callback_context});
  if (!connected) return report(nullptr, connected.error());
  *client = new pst_client{std::move(*connected), {}, {}, {}, {}, {}};
  return PST_DONE;
}

void pst_disconnect(pst_client* client) {
  if (client == nullptr || client->client->forked()) return;
  delete client;
}

int pst_event_fd(const pst_client* client) {
  return check_handle(client) == PST_DONE ? client->client->events().fd() : -1;
}

pst_status pst_next_event(pst_client* client, pst_event* event) {
  if (const pst_status status = check_handle(client, event != nullptr); status != PST_DONE) return status;
  const auto next = client->client->events().next();
  if (!next) return report(client, Failure{FailureKind::not_found, "there is no event", ""});
  return copy_out(*next, event) ? PST_DONE : report_invalid(client, "a struct without its size");
}

uint32_t pst_session_id(const pst_client* client) {
  return check_handle(client) == PST_DONE ? client->client->session() : 0;
}

pst_status pst_device_count(const pst_client* client, uint32_t* count) {
  if (const pst_status status = check_handle(client, count != nullptr); status != PST_DONE) return status;
  *count = static_cast<uint32_t>(client->client->devices().size());
  return PST_DONE;
}

pst_status pst_device_at(const pst_client* client, uint32_t index, pst_device* device) {
  if (const pst_status status = check_handle(client, device != nullptr); status != PST_DONE) return status;
  const std::vector<wire::Device> devices = client->client->devices();
  if (index >= devices.size()) {
    return report(client,
                  Failure{FailureKind::not_found, fmt::format("there are {} devices", devices.size()), ""});
  }
  const wire::Device& found = devices[index];
  pst_device out{};
  found.id.copy(out.id, sizeof out.id - 1);
  std::strncpy(out.kind, kind_name(found.kind), sizeof out.kind - 1);
  out.page_bytes = found.frame_bytes;
  out.capacity_bytes = found.capacity_bytes;
  out.tensor_alignment = found.tensor_alignment;
  return copy_out(out, device) ? PST_DONE : report_invalid(client, "a struct without its size");
}

pst_status pst_use_device(pst_client* client, const char* device) {
  if (const pst_status status = check_handle(client); status != PST_DONE) return status;
  const auto found = client->client->device(device);
  // One that the service does not have may still take copies of tables.
  const auto name = gpu_name(found ? std::string_view(found->facts.id) : device != nullptr ? device : "");
  if (!found && !name) return report(client, found.error());
  if (!name) return PST_DONE;
  const auto entered = enter_program_context(name->vendor, name->id);
  return entered ? PST_DONE : report(client, entered.error());
}

pst_status pst_query(pst_client* client, const char* what, const char* arguments_json, char** json) {
  const bool complete = what != nullptr && json != nullptr;
  if (const pst_status status = check_handle(client, complete); status != PST_DONE) return status;
  *json = nullptr;
  return query(client, what, arguments_json == nullptr ? "" : arguments_json, json);
}

void pst_release_text(char* json) { std::free(json); }
