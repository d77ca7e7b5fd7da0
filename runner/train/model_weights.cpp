// SPDX-License-Identifier: MIT
#include "train/model_weights.h"

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "comm/replicate.h"

#include <ddprun/error.h>

#include <torch/types.h>

#include <filesystem>
#include <set>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

TensorDict read_weights(const fs::path& path) {
  if (fs::is_regular_file(path)) return read_safetensors(path);
  if (fs::exists(path / "manifest.json")) return inference_weights(verify_checkpoint(path));
  std::vector<CheckpointFlaw> flaws;
  if (const auto newest = newest_checkpoint(path, flaws)) return inference_weights(*newest);
  throw UserError("trainer.init_weights: " + path.string() +
                  " is neither a .safetensors file, nor a checkpoint, nor a run with a good one");
}

}  // namespace

void load_weights(const Model& model, const TensorDict& saved, const std::string& where) {
  const torch::NoGradGuard no_gradients;
  std::set<std::string> known;
  for (auto& tensor : state_tensors(model)) {
    known.insert(tensor.name);
    const auto found = saved.find(tensor.name);
    const bool missing = found == saved.end();
    if (missing || found->second.sizes() != tensor.value.sizes()) {
      throw UserError(
          where + " does not fit the model: " + tensor.name +
          (missing ? " is missing in it"
                   : log::text(" is ", found->second.sizes(), " in it and ", tensor.value.sizes(), " in the model")));
    }
    tensor.value.copy_(found->second);
  }
  for (const auto& [name, value] : saved) {
    if (!known.contains(name)) throw UserError(where + " does not fit the model, which has no " + name);
  }
}

void load_initial_weights(const Model& model, const std::string& path) {
  load_weights(model, read_weights(path), "trainer.init_weights: " + path);
}

}  // namespace ddprun
