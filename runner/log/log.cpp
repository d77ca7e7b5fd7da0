// SPDX-License-Identifier: MIT
#include "log/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

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

}  // namespace

void set_prefix(const std::string& prefix) { logger() = make_logger(prefix); }
void info(const std::string& text) { logger()->info("{}", text); }
void warn(const std::string& text) { logger()->warn("{}", text); }
void error(const std::string& text) { logger()->error("{}", text); }

}  // namespace ddprun::log
