// SPDX-License-Identifier: MIT
#include "cluster/environment.h"

#include <unistd.h>

namespace ddprun {

std::optional<Setting> Environment::find(std::initializer_list<const char*> names) const {
  for (const auto* name : names) {
    const auto found = variables_.find(name);
    if (found != variables_.end() && !found->second.empty()) return Setting{found->first, found->second};
  }
  return std::nullopt;
}

Environment process_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(variables));
}

}  // namespace ddprun
