// SPDX-License-Identifier: MIT
#include "sharing/recomputation.h"

#include "base/log.h"

#include <ddprun/error.h>
#include <ddprun/parameters.h>

#include <algorithm>

namespace ddprun {

Recomputation::Recomputation(const std::vector<std::shared_ptr<Model>>& models, const RecomputeConfig& config)
    : config_(config) {
  if (config.is_on()) RecomputedBlocks::before_first_backward();
  for (const auto& model : models) copies_.push_back(std::make_unique<RecomputedBlocks>(model));
}

void Recomputation::choose(const std::vector<std::string>& names) {
  chosen_ = names;
  for (const auto& copy : copies_) copy->choose(names);
}

void Recomputation::choose() {
  if (config_.is_auto || !config_.is_on()) return choose_none();
  const auto& [patterns, place] = config_.blocks;
  const auto blocks = known();
  if (blocks.empty())
    throw UserError(place +
                    "this model has no blocks that can be computed again: its plugin calls ddprun::recomputed() for "
                    "none, or its exported network is too small to be cut; remove the key");
  std::vector<std::string> names;
  for (const auto& pattern : patterns) {
    const auto before = names.size();
    std::ranges::copy_if(blocks, std::back_inserter(names),
                         [&](const std::string& block) { return name_matches(pattern, block); });
    if (names.size() == before)
      throw UserError(place + "no block matches \"" + pattern + "\"" + nearest_pattern(pattern, blocks) +
                      "; those that can be computed again are " + first_names(blocks));
  }
  choose(names);
}

bool Recomputation::choose_all() {
  choose(known());
  return has_chosen();
}

std::string Recomputation::text() const {
  const auto known = this->known();
  const auto chosen = std::ranges::count_if(
      known, [&](const std::string& name) { return std::ranges::find(chosen_, name) != chosen_.end(); });
  return log::text("trainer.recompute: backward computes ", chosen, " of the model's ", known.size(),
                   known.size() == 1 ? " block again" : " blocks again");
}

}  // namespace ddprun
