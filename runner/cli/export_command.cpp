// SPDX-License-Identifier: MIT
// `ddprun export RUN`: a checkpoint's weights as one file for others.
#include "agent/chosen_checkpoint.h"
#include "base/durable_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/training_file.h"
#include "cli/commands.h"
#include "cli/new_file.h"
#include "launch/worker_process.h"

#include <ddprun/error.h>

#include <iostream>

namespace ddprun {
namespace {

std::string format_of(const Arguments& arguments) {
  if (!arguments.format.empty()) return arguments.format;
  const auto extension = std::filesystem::path(arguments.out).extension();
  if (extension == ".safetensors") return "safetensors";
  if (extension == ".pt" || extension == ".pth") return "torch";
  if (extension == ".onnx" || extension == ".pt2")
    throw UserError("--out " + arguments.out +
                    ": weights alone are exported, as .safetensors or .pt; the network they "
                    "belong to is written in Python anew (docs/python.md)");
  throw UserError("--out " + arguments.out +
                  ": the name does not tell the format; add --format safetensors or --format torch");
}

}  // namespace

int export_weights(const Arguments& arguments) {
  const auto format = format_of(arguments);
  const auto checkpoint = choose_checkpoint(existing_run(arguments.target), arguments.checkpoint);
  NewFile file(arguments.out);
  const auto weights = inference_weights(checkpoint);
  if (format == "torch") {
    write_state_dict(file.temporary(), weights);
  } else {
    write_safetensors(file.temporary(), weights);
  }
  file.keep();
  std::cout << arguments.out << ": " << weights.size() << " tensors of step " << checkpoint.step << "\n";
  return kExitDone;
}

}  // namespace ddprun
