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
void info(const std::string& text) { logger()->info("{}", shown(trimmed(text))); }
void warn(const std::string& text) { logger()->warn("{}", shown(trimmed(text))); }
void error(const std::string& text) { logger()->error("{}", shown(trimmed(text))); }

// Those of ASCII, and those of ISO 8859-1, which UTF-8 writes as C2 and the byte.
std::string shown(std::string_view text) {
  std::string result;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    const bool is_c1 = code >= 0x80 && code < 0xA0 && !result.empty() && result.back() == '\xC2';
    const bool is_control = (code < 0x20 && byte != '\t' && byte != '\n') || code == 0x7F || is_c1;
    if (is_c1) result.pop_back();
    result += is_control ? '?' : byte;
  }
  return result;
}

}  // namespace ddprun::log
