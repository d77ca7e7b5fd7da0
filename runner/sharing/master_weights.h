// SPDX-License-Identifier: MIT
// Steps 16-bit weights by float32 copies of them, the "master weights" of Micikevicius et al. ("Mixed Precision
// Training", 2018), for trainer.precision bf16_master: an update that is smaller than 16 bits resolve is not lost.
//
// It is an optimizer around that of a plugin, which sees the copies and their gradients, float32, only. State and
// checkpoints have a copy as "<parameter>/master_weight". Used from the training thread.
#pragma once

#include "checkpoint/checkpoint.h"
#include "config/experiment.h"

#include <ddprun/model.h>
#include <ddprun/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddprun {

class MasterWeights final : public Optimizer {
 public:
  // Calls `start`, which starts the optimizer, with it and copies of these weights; of those that have more than 16
  // bits, the weights themselves. Parts of a step are made together until they have about `numbers_at_once` numbers,
  // whose gradients take four bytes each.
  using Start = std::function<void(Optimizer&, std::vector<NamedParameter>)>;
  MasterWeights(std::shared_ptr<Optimizer> optimizer, const std::vector<NamedParameter>& weights, const Start& start,
                int64_t numbers_at_once = int64_t{1} << 24);

  // Releases the copies of weights that this rank never steps.
  void keep_only(const std::function<bool(const std::string& parameter)>& is_stepped);

  // Returns a weight's copy; undefined if there is none, whose value is the weight's.
  at::Tensor of(const std::string& parameter) const;

  // These step some of the parts at once, so that their gradients take little in float32, if the optimizer has parts.
  void step() override;
  void step_unless(const at::Tensor& found_inf) override;
  bool send_lrs() override;
  std::vector<StepPart> step_parts() const override { return optimizer_->step_parts(); }
  OptimizerState state() const override;
  void load_state(const OptimizerState& state) override;

 private:
  struct Weight {
    NamedParameter own;      // as the model has it
    at::Tensor master;       // that the optimizer steps; `own` itself if it has more than 16 bits
    bool is_there = true;    // whether the copy has memory, and the weight's numbers
    bool is_stepped = true;  // whether this rank ever steps it
    bool has_copy() const { return !master.is_same(own.value); }
  };

  void take_groups();
  void take_lrs();
  void step_all(const std::function<void()>& step);
  bool give_gradients(const std::vector<size_t>& some, std::vector<at::Tensor>& gradients);
  void round(const std::vector<size_t>& some);
  std::vector<std::vector<size_t>> stepped_at_once(int64_t numbers_at_once) const;

  std::shared_ptr<Optimizer> optimizer_;
  std::vector<Weight> weights_;
  std::unordered_map<std::string, size_t> places_;  // in weights_
  std::vector<std::vector<size_t>> turns_;          // places of the weights that are stepped at once
};

// Returns the optimizer, started with the parameters that the model trains: with copies of them if the precision asks
// for those. Throws as start_optimizer().
std::shared_ptr<Optimizer> started_optimizer(std::shared_ptr<Optimizer> optimizer, const Model& model,
                                             const Experiment& experiment);

// Gives a checkpoint that was made in another precision the float32 copies that this one asks for, from its weights; or
// puts its copies in place of its weights where it asks for none. Its model is all there.
void fit_to_precision(Checkpoint& checkpoint, const Model& model, PrecisionMode precision);

}  // namespace ddprun
