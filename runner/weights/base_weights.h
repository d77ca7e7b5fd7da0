// SPDX-License-Identifier: MIT
// The weights that a run begins with, and which of them its checkpoints leave out (checkpoint.only_trainable): those
// below an adapter, or frozen, which are the same after each step.
//
// They are drawn from the seed, lie in the model's own file or come from pretrained.file: who makes the model as
// the run did has them again, and their digest says whether they are the same. It is that of the numbers as they were
// made, in host memory, before the precision, the memory format or the device of a training changes how they lie.
#pragma once

#include "checkpoint/checkpoint.h"
#include "config/experiment.h"

#include <ddprun/dataset.h>
#include <ddprun/model.h>
#include <ddprun/safetensors.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

// Whether this process reads pretrained.file: the others of a training get the weights of rank 0.
enum class PretrainedFile { kRead, kLeave };

// Gives a model that was prepared the weights that a run begins with: it calls Model::initialize(), unless all of them
// come from pretrained.file, and loads that. `data` may be null where they cannot be opened; the model is not
// initialized then. Returns what was loaded, for people; empty: nothing. Throws UserError.
std::string begin_weights(Model& model, const Dataset* data, const PretrainedConfig& config,
                          PretrainedFile file = PretrainedFile::kRead);

// Digests of parameters by their names, each with its type and shape: those of several can be added up.
using WeightDigests = std::map<std::string, uint64_t>;

// Call it when the weights are those that the run begins with, and lie in host memory.
WeightDigests digests_of_weights(const Model& model);

// Adds to the weights that a checkpoint holds the model's own parameters that it leaves out; `first` are the model's
// digests. The result shares their memory. Throws UserError, beginning with `where`, if these are not those that the
// checkpoint's run began with.
TensorDict with_left_out(TensorDict held, const std::optional<LeftOutWeights>& left_out, const Model& model,
                         const WeightDigests& first, const std::string& where);

// What the checkpoints of a training leave out: the parameters that no step trains, as long as they have the bits that
// the run began with. Only rank 0's has any: it alone writes checkpoints. Used from the training thread.
class BaseWeights {
 public:
  BaseWeights() = default;  // nothing is left out

  // Takes a model that is ready for training, with the digests of its first weights.
  BaseWeights(const Model& model, const std::set<std::string>& never_trained, WeightDigests first);

  // Takes out those that a checkpoint holds with other bits. Call it before that is loaded into the model.
  void keep_changed(const TensorDict& held);

  // Returns the digest of those in memory, as digest_of(names, tensors) has it. Takes out, with a warning, what has
  // changed since the training began: by a callback, or by the model itself.
  uint64_t digest();

  bool has(const std::string& parameter) const { return weights_.contains(parameter); }
  bool is_empty() const { return weights_.empty(); }
  std::optional<LeftOutWeights> left_out() const;  // nothing if it is empty

  // Returns "checkpoints leave out 24 of 32 parameters, 98.5 % of the weights (0.9 MB), which never train".
  std::string text() const;

 private:
  struct Weight {
    at::Tensor tensor;
    uint64_t digest = 0;  // in memory, by its name alone
    uint64_t first = 0;   // of WeightDigests
  };

  std::map<std::string, Weight> weights_;
  int64_t all_ = 0, all_numbers_ = 0;  // parameters of the model
};

}  // namespace ddprun
