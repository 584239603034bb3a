// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "exporters/http_types.hpp"
#include "exporters/text_format.hpp"

namespace penstock {

std::vector<HttpRoute> health_routes(HealthHandlers handlers) {
  std::vector<HttpRoute> routes;
  routes.push_back({.path = "/metrics", .get = [page = std::move(handlers.metrics_page)] {
                      return HttpReply{
                          .status = 200, .content_type = std::string(text_format_type), .body = page()};
                    }});
  routes.push_back({.path = "/healthz", .get = [] { return HttpReply{.status = 200, .body = "ok\n"}; }});
  routes.push_back({.path = "/readyz", .get = [not_ready = std::move(handlers.not_ready)] {
                      const std::optional<std::string> reason = not_ready();
                      if (reason) return HttpReply{.status = 503, .body = *reason + "\n"};
                      return HttpReply{.status = 200, .body = "ready\n"};
                    }});
  return routes;
}

}  // namespace penstock
