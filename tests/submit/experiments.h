// SPDX-License-Identifier: MIT
// Experiments and submissions for the tests of this folder.
#pragma once

#include "submit/submission.h"

namespace ddprun::testing {

// Four GPUs on each of two nodes.
inline Experiment large() {
  Experiment experiment;
  experiment.name = "mnist";
  experiment.resources = {.nodes = 2,
                          .gpus = 4,
                          .cpus_per_worker = 8,
                          .memory = "64G",
                          .ephemeral_storage = "20G",
                          .seconds = 36 * 3600 + 90,
                          .slurm = {"--partition=accel", "--account=a project"},
                          .image = "registry/ddprun:0.1",
                          .claim = "outputs"};
  return experiment;
}

inline Submission submission() {
  return {.program = "/opt/ddprun/bin/ddprun",
          .experiment = "experiments/mnist.yaml",
          .overrides = {"trainer.max_epochs=3", "model.note=it's $HOME"}};
}

}  // namespace ddprun::testing
