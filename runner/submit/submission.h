// SPDX-License-Identifier: MIT
// Turns an experiment into a job of Slurm: returns the text to submit. One ddprun per node starts the node's workers.
#pragma once

#include "config/experiment.h"

#include <string>
#include <vector>

namespace ddprun {

struct Submission {
  std::string program;                 // path of ddprun on the nodes; a container's image has it on PATH instead
  std::string experiment;              // as the user named it
  std::vector<std::string> overrides;  // the user's
};

int64_t nodes_of(const Experiment& experiment);
int64_t cpus_of_node(const Experiment& experiment);  // 0: not given

// Returns a batch script for sbatch, to be submitted from the folder that the experiment's relative paths start from.
std::string slurm_script(const Experiment& experiment, const Submission& submission);

// Returns the folder of the job's output; Slurm does not create it.
std::string slurm_output_folder(const Experiment& experiment);

// Returns one shell word, whatever is in the text.
std::string shell_word(const std::string& text);
std::string shell_words(const std::vector<std::string>& words);

}  // namespace ddprun
