// SPDX-License-Identifier: MIT
// Reads an experiment: its file is composed (compose.h), and each section is read by the functions that declare its
// keys (sections.h, feature_section.h). The help and the documentation of keys come from the same declarations.
#pragma once

#include "config/compose.h"
#include "config/experiment.h"
#include "config/resumed_keys.h"

#include <ddprun/options.h>
#include <ddprun/value.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// Reads a composed tree. Appends all mistakes to `problems`, one full line each; the result is usable only without any.
Experiment read_experiment(Value config, std::vector<std::string>& problems);

// Composes and reads an experiment, so that the mistakes of both are reported together: appended to `problems`, one
// full line each; with them, of a run's recorded experiment, the overrides of keys that one of `fixed` has fixed.
// Throws UserError with all of them if a file is missing or unreadable, so that nothing can be read.
Experiment load_experiment(const ComposeInput& input, std::vector<std::string>& problems,
                           const std::set<FixedKey::By>& fixed = {});

// Does the same, but throws UserError for any mistake.
Experiment load_experiment(const ComposeInput& input);

// Returns what ignored_changes() says of an experiment that is to continue the run in this folder, whose config.yaml
// is `recorded`.
std::vector<std::string> ignored_by_run(const std::filesystem::path& run, const Value& recorded, const Experiment& now,
                                        const std::set<FixedKey::By>& by);

// One section of the file with its keys, as in the help and the documentation.
struct SectionHelp {
  std::string name;  // "trainer"; empty for the keys of the root
  std::string help;
  std::vector<OptionDeclaration> keys;
};

// Returns all keys that a plugin does not define, the root's first: from the declarations that read_experiment reads
// with.
std::vector<SectionHelp> experiment_keys();

// Returns the keys of the section `schedule` for each schedule, by its name.
std::vector<SectionHelp> schedule_kinds();

}  // namespace ddprun
