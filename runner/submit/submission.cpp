// SPDX-License-Identifier: MIT
#include "submit/submission.h"

namespace ddprun {
namespace {

// Returns the workers per node, if known here.
int64_t workers_of(const Experiment& experiment) {
  if (experiment.trainer.strategy == Strategy::kDp) return 1;
  if (experiment.launch.workers > 0) return experiment.launch.workers;
  return experiment.resources.gpus > 0 ? experiment.resources.gpus : 1;
}

}  // namespace

int64_t nodes_of(const Experiment& experiment) {
  return experiment.resources.nodes > 0 ? experiment.resources.nodes : experiment.launch.max_nodes;
}

int64_t cpus_of_node(const Experiment& experiment) {
  const auto& resources = experiment.resources;
  return resources.cpus_per_node > 0 ? resources.cpus_per_node : resources.cpus_per_worker * workers_of(experiment);
}

}  // namespace ddprun
