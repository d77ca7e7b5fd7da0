// SPDX-License-Identifier: MIT
// Chooses the blocks of the model that backward computes again (trainer.recompute, <ddprun/recompute.h>). The results
// are the same for every choice.
#pragma once

#include "config/experiment.h"

#include <ddprun/model.h>
#include <ddprun/recompute.h>

#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class Recomputation {
 public:
  // Takes the model first, then its copies of trainer.strategy dp, before the first backward.
  Recomputation(const std::vector<std::shared_ptr<Model>>& models, const RecomputeConfig& config);

  // Returns whether blocks must be known, which they are after a forward.
  bool is_asked_for() const { return config_.is_on(); }

  // Chooses the blocks that the experiment names, none for `auto`. Throws UserError for a pattern that matches none.
  void choose();

  // Chooses what will ask, before blocks are known.
  void choose_any() { choose(copies_.front()->modules()); }

  // Chooses all blocks, or none again. Returns false if the model has none.
  bool choose_all();
  void choose_none() { choose({}); }

  bool is_auto() const { return config_.is_auto; }
  bool has_chosen() const { return !chosen_.empty(); }

  // Returns whether the model has blocks, and none is chosen.
  bool could_choose() const { return !has_chosen() && !known().empty(); }

  // Returns "trainer.recompute: backward computes 12 of the model's 12 blocks again".
  std::string text() const;

 private:
  void choose(const std::vector<std::string>& names);
  std::vector<std::string> known() const { return copies_.front()->known(); }

  std::vector<std::unique_ptr<RecomputedBlocks>> copies_;
  RecomputeConfig config_;
  std::vector<std::string> chosen_;
};

}  // namespace ddprun
