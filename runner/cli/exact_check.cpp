// SPDX-License-Identifier: MIT
// `ddprun check --exact EXPERIMENT`: trains five steps on one worker and on two, as runs in a temporary folder, and
// compares the bits of what their last checkpoints hold. A plugin whose kernels depend on the threads or the machine's
// state, or that asks for its rank, shows here.
#include "base/log.h"
#include "base/private_folder.h"
#include "base/program.h"
#include "cli/commands.h"
#include "cli/tensor_difference.h"
#include "launch/worker_process.h"

#include <ddprun/error.h>
#include <ddprun/safetensors.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 5;

// Trains, and returns what the checkpoint holds: "conv1.weight", "conv1.weight/momentum of the optimizer".
TensorDict trained(const Arguments& arguments, int workers, const fs::path& run) {
  std::vector<std::string> command{own_program().string(), arguments.target};
  command.insert(command.end(), arguments.overrides.begin(), arguments.overrides.end());
  for (const auto& word : {log::text("launch.workers=", workers), log::text("trainer.max_steps=", kSteps),
                           std::string("trainer.limit_val_batches=1"), std::string("trainer.limit_test_batches=1"),
                           std::string("++loggers=[]"), log::text("run.dir=", run.string())})
    command.push_back(word);
  const auto end = run_program(command);
  if (end.exit_code != kExitDone)
    throw UserError(log::text("--exact: training on ", workers, workers == 1 ? " worker" : " workers", " ended with ",
                              end.exit_code, ":\n", end.output));
  TensorDict all;
  const auto checkpoint = run / "checkpoints/last";
  for (const auto& [file, of] :
       {std::pair("model", ""), {"optimizer", " of the optimizer"}, {"ema", " of the averages"}}) {
    const auto path = checkpoint / (std::string(file) + ".safetensors");
    if (!fs::exists(path)) continue;
    for (const auto& [name, tensor] : read_safetensors(path)) all[name + of] = tensor;
  }
  return all;
}

}  // namespace

int show_exact_check(const Arguments& arguments, bool sharded) {
  const PrivateFolder folder;
  const auto one = trained(arguments, 1, folder.path() / "one"), two = trained(arguments, 2, folder.path() / "two");
  std::vector<std::string> differences;
  for (const auto& [name, tensor] : one) {
    const auto other = two.find(name);
    if (other == two.end() || !same_bits(tensor, other->second))
      differences.push_back(other == two.end() ? name + ": only on one worker"
                                               : name + ": " + difference_text(tensor, other->second));
  }
  for (const auto& [name, tensor] : two)
    if (!one.contains(name)) differences.push_back(name + ": only on two workers");
  if (differences.empty()) {
    std::cout << "Exact: " << kSteps << " steps on 1 and on 2 workers end with the same bits in all " << one.size()
              << " tensors of weights, buffers, optimizer and averages.\n";
    return kExitDone;
  }
  std::cout << "Not exact: " << kSteps << " steps on 1 and on 2 workers end with other bits in " << differences.size()
            << " of " << one.size() << " tensors:\n";
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, differences.size()); ++i) std::cout << "  " << differences[i] << "\n";
  if (differences.size() > kShown) std::cout << "  ...\n";
  std::cout << (sharded
                    ? "trainer.shards is set, so a plugin's numbers depend on the rank, on threads or on what it "
                      "computed before: look for random numbers that ddprun does not seed and for sums of atomics.\n"
                    : "Without trainer.shards each worker computes its own part of the batch, and sums have another "
                      "order: set it, at least to 2.\n");
  return kExitFailed;
}

}  // namespace ddprun
