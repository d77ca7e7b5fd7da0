// SPDX-License-Identifier: MIT
// One entry of the option `groups`: parameters, selected by patterns of their names, with their own settings. If
// several rules match a parameter, the first counts.
#pragma once

#include <ddprun/optimizer.h>

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct GroupRule {
  std::vector<std::string> patterns;       // as a shell's for file names; "*" goes over dots too
  std::optional<double> lr, weight_decay;  // if unset, those of the optimizer
  std::string place;                       // "mnist.yaml:7:12: optimizer.groups: "
};

// These declare an option of rules, and one of patterns alone. Mistakes are noted in `options`.
std::vector<GroupRule> read_group_rules(Options& options, const std::string& name = "groups");
GroupRule read_pattern_rule(Options& options, const std::string& name, const std::string& help);

// Returns the parameters that no rule matches, then those of each rule, in the order given. Throws UserError, naming
// existing parameters, if a pattern matches none or a rule is left with none. `whose` ("Muon's") names these parameters
// in the error if they are not all of the model's.
std::vector<std::vector<NamedParameter>> dealt_out(std::vector<NamedParameter> parameters,
                                                   const std::vector<GroupRule>& rules, const std::string& whose = "");

}  // namespace ddprun
