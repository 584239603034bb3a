// SPDX-License-Identifier: Apache-2.0
// Where the metrics are served: numeric addresses only, so that the start never waits for a name server.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

#include "dataplane/base/quote.hpp"
#include "service/config/values.hpp"

namespace penstock {
namespace {

bool is_numeric(int family, const std::string& address) {
  in6_addr parsed{};
  return ::inet_pton(family, address.c_str(), &parsed) == 1;
}

std::string refuse(std::string_view text, std::string_view why) {
  return fmt::format("{} {}: wants {}", quote(text), why, ListenKind{}.allowed());
}

}  // namespace

std::string ListenKind::allowed() const {
  return "a numeric address and a port from 0 to 65535, as \"127.0.0.1:9836\" or \"[::1]:9836\", or \"\" for "
         "none";
}

std::string ListenKind::print(const std::optional<ListenAddress>& value) const {
  if (!value) return toml_string("");
  const bool v6 = value->address.find(':') != std::string::npos;
  return toml_string(fmt::format("{}{}{}:{}", v6 ? "[" : "", value->address, v6 ? "]" : "", value->port));
}

std::string ListenKind::assign(const ConfigValue& from, std::optional<ListenAddress>& to) const {
  const std::string* text = std::get_if<std::string>(&from);
  if (text == nullptr) return fmt::format("wants {}, found {}", allowed(), kind_of(from));
  if (text->empty()) {
    to.reset();
    return {};
  }
  const std::size_t colon = text->rfind(':');
  if (colon == std::string::npos) return refuse(*text, "has no port");
  std::string address = text->substr(0, colon);
  const bool bracketed = address.size() >= 2 && address.starts_with('[') && address.ends_with(']');
  if (bracketed) address = address.substr(1, address.size() - 2);
  // An embedded zero byte would end the address early.
  const bool numeric =
      address.find('\0') == std::string::npos && is_numeric(bracketed ? AF_INET6 : AF_INET, address);
  if (!numeric) return refuse(*text, "has no numeric address");
  std::uint32_t port = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data() + colon + 1, end, port);
  if (error != std::errc{} || rest != end || port > 65535) return refuse(*text, "has no valid port");
  to = ListenAddress{.address = std::move(address), .port = static_cast<std::uint16_t>(port)};
  return {};
}

}  // namespace penstock
