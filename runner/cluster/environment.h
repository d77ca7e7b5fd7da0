// SPDX-License-Identifier: MIT
// The environment variables that a launch is read from: the process's own, or a test's.
#pragma once

#include "cluster/setting.h"

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ddprun {

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {}

  // Returns the first of these that is set; an empty value counts as not set.
  std::optional<Setting> find(std::initializer_list<const char*> names) const;
  std::optional<Setting> find(const char* name) const { return find({name}); }
  bool has(const char* name) const { return find(name).has_value(); }

 private:
  std::map<std::string, std::string> variables_;
};

Environment process_environment();

}  // namespace ddprun
