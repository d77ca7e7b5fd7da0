// SPDX-License-Identifier: MIT
#include "rendezvous/store_place.h"

#include <cstdlib>
#include <string_view>

namespace ddprun {
namespace {

constexpr std::string_view kScheme = "tcp://";
constexpr auto kId = "DDPRUN_RENDEZVOUS_ID", kToken = "DDPRUN_TOKEN";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string attempt_prefix(int attempt) { return "attempt_" + std::to_string(attempt); }

std::string StorePlace::text() const { return std::string(kScheme) + endpoint.text() + "/" + prefix; }

std::optional<StorePlace> parse_store_place(const std::string& text) {
  if (!text.starts_with(kScheme)) return std::nullopt;
  const auto slash = text.find('/', kScheme.size());
  if (slash == text.npos) return std::nullopt;
  const auto where = text.substr(kScheme.size(), slash - kScheme.size());
  return StorePlace{parse_endpoint({"DDPRUN_STORE", where}, 0), text.substr(slash + 1)};
}

Secret secret_from_environment() { return {.id = variable(kId), .token = variable(kToken)}; }

std::vector<std::pair<std::string, std::string>> secret_variables(const Secret& secret) {
  return {{kId, secret.id}, {kToken, secret.token}};
}

}  // namespace ddprun
