// SPDX-License-Identifier: MIT
// One setting of the launch: an environment variable or a flag, under the name that the user knows.
#pragma once

#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ddprun {

struct Setting {
  std::string name;   // "SLURM_PROCID", "--nnodes"
  std::string value;  // as given; empty for a flag without a value

  std::string text() const { return value.empty() ? name : name + "=" + value; }

  // Returns the value as a whole number. Throws UserError, naming the setting, for anything else or a number out of
  // range.
  int number(int lowest, int highest = std::numeric_limits<int>::max()) const;
};

// Throws UserError: "RANK=1 and SLURM_PROCID=0 contradict each other: <why>".
[[noreturn]] void contradict(const Setting& one, const Setting& other, const std::string& why);

// Throws UserError unless the first number is below the other.
void require_below(const Setting& one, const Setting& limit);

// The environment variables that a launch is read from: the process's own, or a test's.
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
