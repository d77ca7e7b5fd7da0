// SPDX-License-Identifier: MIT
// Every node composes the experiment from its own command and trains what it has composed. What the first node says is
// compared with it, never obeyed: an impostor can run nothing here, and commands that differ are refused before they
// train.
#pragma once

#include "agent/checked_experiment.h"
#include "launch/attempt.h"

#include <filesystem>
#include <map>
#include <string>

namespace ddprun {

// All that must be equal on all nodes, by its key: the experiment's values, the digests of its plugins' files, the
// versions. Excludes what each node has of its own (workers, address, token) and what only rank 0 uses (loggers, the
// run's folder).
using CommonPart = std::map<std::string, std::string>;

CommonPart common_part(const CheckedExperiment& checked);

// Throws UserError with the first keys that differ.
void require_same_experiment(const CommonPart& first_nodes, const CommonPart& own);

// Checks the run's folder and checkpoint if no token proves who the first node is: they must lie where this node's own
// command has them. `run_dir` is the folder that it names; empty: one below outputs/<name>. Throws UserError.
void require_expected_places(const Attempt& attempt, const Experiment& experiment,
                             const std::filesystem::path& run_dir);

}  // namespace ddprun
