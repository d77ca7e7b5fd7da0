// SPDX-License-Identifier: MIT
#pragma once

namespace ddprun {

// trainer.system_metrics_seconds: between two rows of the split "system"; 0: none.
struct SystemRowsConfig {
  double seconds = 5;
};

}  // namespace ddprun
