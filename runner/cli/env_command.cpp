// SPDX-License-Identifier: MIT
// `ddprun env`: how this process was started, and where it stands.
#include "agent/launch_choice.h"
#include "cli/commands.h"
#include "cluster/placement_text.h"
#include "launch/worker_process.h"

#include <ddprun/version.h>

#include <torch/headeronly/version.h>

#include <iostream>

namespace ddprun {

int env(const Arguments& arguments) {
  const auto placement = find_placement(arguments.launch, process_environment());
  const auto machine = this_machine();
  const Installation installation{
      .ddprun = DDPRUN_VERSION, .libtorch = TORCH_VERSION, .gpus = machine.gpus, .cores = machine.cores};
  std::cout << (arguments.json ? placement_json(placement, installation) : placement_text(placement, installation));
  return kExitDone;
}

}  // namespace ddprun
