// SPDX-License-Identifier: MIT
#include "log/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string_view>

namespace ddprun::log {
namespace {

std::shared_ptr<spdlog::logger> make_logger(const std::string& prefix) {
  auto logger = std::make_shared<spdlog::logger>(prefix, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%n: %^%l%$: %v");
  return logger;
}

std::shared_ptr<spdlog::logger>& logger() {
  static auto instance = make_logger("ddprun");
  return instance;
}

std::string_view trimmed(std::string_view text) { return text.substr(0, text.find_last_not_of('\n') + 1); }

}  // namespace

void set_prefix(const std::string& prefix) { logger() = make_logger(prefix); }
void info(const std::string& text) { logger()->info("{}", trimmed(text)); }
void warn(const std::string& text) { logger()->warn("{}", trimmed(text)); }
void error(const std::string& text) { logger()->error("{}", trimmed(text)); }

}  // namespace ddprun::log
