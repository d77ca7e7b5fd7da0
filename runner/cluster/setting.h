// SPDX-License-Identifier: MIT
// One thing that somebody said about the launch: an environment variable or a flag, by the name that he knows it under.
#pragma once

#include <limits>
#include <string>

namespace ddprun {

struct Setting {
  std::string name;   // "SLURM_PROCID", "--nnodes"
  std::string value;  // as it was given; of a flag without one: empty

  std::string text() const { return value.empty() ? name : name + "=" + value; }

  // The value as a whole number. Throws UserError, naming the setting, for anything else and outside the limits.
  int number(int lowest, int highest = std::numeric_limits<int>::max()) const;
};

// Throws UserError: "RANK=1 and SLURM_PROCID=0 contradict each other: <why>".
[[noreturn]] void contradict(const Setting& one, const Setting& other, const std::string& why);

// Throws UserError where the one number is not below the other.
void require_below(const Setting& one, const Setting& limit);

}  // namespace ddprun
