// SPDX-License-Identifier: MIT
// The losses that an experiment can name under `objective:`.
#pragma once

#include <ddprun/objective.h>
#include <ddprun/options.h>

#include <memory>
#include <string>

namespace ddprun {

// cross_entropy ([B, C] logits, [B] int64; option label_smoothing), nll ([B, C] log-probabilities), or mse (equal shapes).
// An unknown name and wrong options are noted in `options`; the result is then unusable.
std::unique_ptr<Objective> make_objective(const std::string& name, Options& options);

}  // namespace ddprun
