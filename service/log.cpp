// SPDX-License-Identifier: Apache-2.0
#include "service/log.hpp"

#include <chrono>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "service/control/decision_log.hpp"

namespace penstock {
namespace {

class JsonLines final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string_view level(spdlog::level::to_string_view(message.level).data(),
                                 spdlog::level::to_string_view(message.level).size());
    const std::string_view text(message.payload.data(), message.payload.size());
    const nlohmann::json line{
        {"time",
         format_time(std::chrono::time_point_cast<std::chrono::system_clock::duration>(message.time))},
        {"level", level},
        {"message", text}};
    const std::string json = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    out.append(json.data(), json.data() + json.size());
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonLines>(); }
};

}  // namespace

void set_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::error: return spdlog::set_level(spdlog::level::err);
    case LogLevel::warning: return spdlog::set_level(spdlog::level::warn);
    case LogLevel::info: return spdlog::set_level(spdlog::level::info);
    case LogLevel::debug: return spdlog::set_level(spdlog::level::debug);
  }
}

void start_log(const LogConfig& config) {
  auto logger =
      std::make_shared<spdlog::logger>("penstockd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(logger);
  if (config.format == LogFormat::json)
    spdlog::set_formatter(std::make_unique<JsonLines>());
  else
    spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  set_log_level(config.level);
}

}  // namespace penstock
