// SPDX-License-Identifier: Apache-2.0
// What an HTTP endpoint serves: paths and functions. Knows no HTTP library.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

struct HttpReply {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// `get` is called on the endpoint's thread, once a request (GET and HEAD). It must not wait.
struct HttpRoute {
  std::string path;
  std::function<HttpReply()> get;
};

struct HealthHandlers {
  std::function<std::string()> metrics_page;
  // Why the service does not serve clients now, as one line; nullopt when it does.
  std::function<std::optional<std::string>()> not_ready;
};

// /metrics, /healthz (200 whenever the thread answers), /readyz (503 with the reason until ready and while closing).
std::vector<HttpRoute> health_routes(HealthHandlers handlers);

}  // namespace penstock
