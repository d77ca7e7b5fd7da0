// SPDX-License-Identifier: MIT
// Knows which parameters train at which step: pretrained.freeze and pretrained.unfreeze.
//
// A frozen parameter requires no gradient, so that none is computed, exchanged or applied. A layer with running
// statistics (BatchNorm) stays in evaluation mode while all of its own parameters are frozen or, if it has none, while
// a pattern matches its statistics. What trains depends on the step alone: it is the same on all ranks, and for a run
// that resumes there.
#pragma once

#include "weights/freezing_config.h"

#include <ddprun/model.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

// Makes parameters trainable which the model itself does not train (requires_grad=False), where a pattern of
// pretrained.freeze matches nothing else: frozen by that, they can be unfrozen. Called before the optimizer starts.
void take_up_frozen(Model& model, const FreezingConfig& config);

class Freezing {
 public:
  // Takes the model first, then its copies of trainer.strategy dp, and freezes what the first step does not train.
  // Throws UserError for a pattern that matches nothing, and if nothing were left to train.
  Freezing(std::vector<std::shared_ptr<Model>> models, const FreezingConfig& config, int64_t steps_per_epoch);

  // Returns whether other parameters train in the step after `step` steps than now.
  bool is_due(int64_t step) const { return phase_of(step) != phase_; }

  // Freezes and unfreezes for the step after `step` steps. Returns whether that changed anything.
  bool enter(int64_t step);

  // Unfreezes everything that ever trains. Returns whether that changed anything.
  bool enter_last() { return enter(kNever - 1); }

  bool is_used() const { return !frozen_.empty(); }

  // Returns whether the parameter is frozen at first: of others only the model knows whether they train.
  bool decides(const std::string& name) const { return frozen_.contains(name); }

  // Returns whether the parameter is unfrozen in some step, of a run that is long enough.
  bool ever_trains(const std::string& name) const;

  // Returns the names of the model's parameters that no step trains: those that it does not train itself, and those
  // that are frozen to the end of the longest run.
  std::set<std::string> never_trained() const;

  // Returns "60 of 62 parameters are frozen (99.9 % of the weights), 12 of them until 5ep", or
  // "all 62 parameters train".
  std::string text() const;

  // Returns warnings of what a run of so many steps does not reach: "pretrained.unfreeze: 90ep is after its end".
  std::vector<std::string> warnings(int64_t max_steps) const;

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // A parameter under each of its names, or the statistics of a layer that has no parameters.
  struct Weight {
    std::vector<std::string> names;
    int64_t numbers = 0;  // 0: statistics
    int64_t until = 0;    // the steps that it stays frozen for
  };
  struct Unfreezing {
    int64_t step = 0;
    std::string text;  // "5ep"
  };

  void freeze(const NamePatterns& patterns);
  void unfreeze(const FreezingConfig::Unfreeze& unfreezing, int64_t steps_per_epoch);
  size_t phase_of(int64_t step) const;
  bool is_frozen(const std::string& name) const;
  void apply(Model& model) const;
  std::vector<std::shared_ptr<torch::nn::Module>> frozen_norms(const Model& model) const;

  std::vector<std::shared_ptr<Model>> models_;
  std::vector<Weight> weights_;            // all that the model trains by itself
  std::vector<std::string> untrained_;     // the names of the others
  std::map<std::string, int64_t> frozen_;  // Weight::until by each name of those that are frozen at first
  std::vector<Unfreezing> unfreezings_;    // by step
  size_t phase_ = 0;                       // unfreezings done
};

}  // namespace ddprun
