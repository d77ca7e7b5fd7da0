// SPDX-License-Identifier: MIT
// Mixes the samples of a training batch in pairs: mixup (Zhang et al.: "mixup: Beyond Empirical Risk Minimization",
// 2018) and cutmix (Yun et al.: "CutMix", 2019), with the pairs and distributions of torchvision's MixUp and CutMix.
//
// Each sample is paired with the one before it in the global batch, the first with the last. So a rank needs one sample
// beside its own, which it loads itself, and the result is the same at any number of ranks. What is drawn depends only
// on the seed and the step.
#pragma once

#include "config/experiment.h"

#include <ddprun/dataset.h>

#include <array>
#include <cstdint>

namespace ddprun {

class Mixing {
 public:
  // Throws UserError if the experiment mixes, and the data are no classified samples.
  Mixing(const TrainerConfig& config, uint64_t seed, const DataSpec& data);

  bool enabled() const { return mixup_ > 0 || cutmix_ > 0; }

  // Mixes a step's samples: `batch` is a rank's part after the sample before it. Returns the batch without that one,
  // with targets of [B, C] float32 that add up to 1. Batches of a disabled one are returned as they are. Throws
  // UserError if they cannot be mixed.
  Batch mixed(const Batch& batch, int64_t step) const;

 private:
  // What one step draws.
  struct Draw {
    bool cuts = false;
    double share = 1;              // of the sample itself
    std::array<int64_t, 4> box{};  // with cutmix: top, left, height and width of what comes from the other one
  };

  Draw draw(int64_t step, int64_t height, int64_t width) const;
  void require_mixable(const Batch& batch) const;

  double mixup_, cutmix_;  // the parameter of the Beta distribution; 0: off
  uint64_t seed_;
  int64_t classes_;
};

}  // namespace ddprun
