// SPDX-License-Identifier: MIT
#pragma once

namespace ddprun {

// trainer.max_time: of training steps, of all attempts together; 0: no limit.
struct MaxTimeConfig {
  double seconds = 0;
};

}  // namespace ddprun
