// SPDX-License-Identifier: MIT
// One entry of the option `groups`: parameters, by patterns of their names, with numbers of their own. Of several
// rules that match a parameter the first counts.
#pragma once

#include <ddprun/optimizer.h>

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct GroupRule {
  std::vector<std::string> patterns;       // as a shell's for file names; "*" goes over dots too
  std::optional<double> lr, weight_decay;  // those of the optimizer where there is none
  std::string place;                       // "mnist.yaml:7:12: optimizer.groups: "
};

// Declare an option of rules, and one of patterns alone. Mistakes are noted in `options`.
std::vector<GroupRule> read_group_rules(Options& options, const std::string& name = "groups");
GroupRule read_pattern_rule(Options& options, const std::string& name, const std::string& help);

// The parameters of each rule, behind those that no rule matches, in the order given. Throws UserError, naming
// parameters that there are, for a pattern that matches none, and for a rule that is left with none. `whose` is what
// the error calls these parameters where they are not all that the model has: "Muon's".
std::vector<std::vector<NamedParameter>> dealt_out(std::vector<NamedParameter> parameters,
                                                   const std::vector<GroupRule>& rules, const std::string& whose = "");

}  // namespace ddprun
