// SPDX-License-Identifier: MIT
#include "base/log.h"

#include "base/terminal.h"
#include "shown_text.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

namespace ddprun::log {
namespace {

spdlog::level::level_enum level() {
  const char* wanted = std::getenv(kLevelVariable);
  const std::string_view word = wanted ? wanted : "";
  return word == "quiet" ? spdlog::level::warn : word == "verbose" ? spdlog::level::debug : spdlog::level::info;
}

std::shared_ptr<spdlog::logger> make_logger(const std::string& prefix) {
  auto logger = std::make_shared<spdlog::logger>(prefix, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%n: %^%l%$: %v");
  logger->set_level(level());
  return logger;
}

std::shared_ptr<spdlog::logger>& logger() {
  static auto instance = make_logger("ddprun");
  return instance;
}

struct LongestFirst {
  bool operator()(const std::string& a, const std::string& b) const {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  }
};

// Process-wide, like the environment that the secrets come from.
struct Hidden {
  std::mutex mutex;
  std::map<std::string, std::string, LongestFirst> shown;  // by secret

  static Hidden& all() {
    static Hidden instance;
    return instance;
  }
};

std::string_view trimmed(std::string_view text) { return text.substr(0, text.find_last_not_of('\n') + 1); }

void write(spdlog::level::level_enum level, const std::string& text) {
  auto line = shown(trimmed(masked(text)));
  const auto prefix =
      logger()->name().size() + spdlog::level::to_string_view(level).size() + std::string_view(": : ").size();
  if (const auto columns = terminal_columns(STDERR_FILENO)) line = fitted(line, *columns, prefix);
  logger()->log(level, "{}", line);
}

}  // namespace

void set_prefix(const std::string& prefix) { logger() = make_logger(prefix); }
bool is_quiet() { return level() == spdlog::level::warn; }
void debug(const std::string& text) { write(spdlog::level::debug, text); }
void info(const std::string& text) { write(spdlog::level::info, text); }
void warn(const std::string& text) { write(spdlog::level::warn, text); }
void error(const std::string& text) { write(spdlog::level::err, text); }

void hide(const std::string& secret, const std::string& shown) {
  constexpr size_t kShortest = 4;
  if (secret.size() < kShortest) return;
  auto& hidden = Hidden::all();
  const std::scoped_lock lock(hidden.mutex);
  hidden.shown[secret] = shown;
}

std::string masked(std::string text) {
  auto& hidden = Hidden::all();
  const std::scoped_lock lock(hidden.mutex);
  for (const auto& [secret, shown] : hidden.shown) {
    for (size_t at = 0; (at = text.find(secret, at)) != std::string::npos; at += shown.size())
      text.replace(at, secret.size(), shown);
  }
  return text;
}

std::string shown(std::string_view text) { return ddprun::shown(text, "\t\n"); }

}  // namespace ddprun::log
