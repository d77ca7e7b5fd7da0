// SPDX-License-Identifier: MIT
// An experiment as a job of a scheduler: the text that is handed to it. One ddprun for each node starts the node's
// workers.
#pragma once

#include "config/experiment.h"

#include <string>
#include <vector>

namespace ddprun {

struct Submission {
  std::string program;                 // ddprun, as the nodes find it; in a container's image it is on PATH instead
  std::string experiment;              // as the user named it
  std::vector<std::string> overrides;  // his
};

int64_t nodes_of(const Experiment& experiment);
int64_t cpus_of_node(const Experiment& experiment);  // 0: not said

// A batch script for sbatch, to be submitted from the folder where the experiment's relative paths begin.
std::string slurm_script(const Experiment& experiment, const Submission& submission);

// Where the script has Slurm write what the job prints; Slurm does not make the folder.
std::string slurm_output_folder(const Experiment& experiment);

// A Job, and for several nodes a headless Service by which the pods find the first, and a Secret with their token, for
// kubectl apply; each call has another name for them. Throws UserError where the experiment does not name the image and
// the claim.
std::string kubernetes_manifest(const Experiment& experiment, const Submission& submission);

}  // namespace ddprun
