// SPDX-License-Identifier: MIT
#pragma once

namespace ddprun {

// trainer.peak_tflops: of one device, for MFU; 0: by the GPU's name.
struct WorkConfig {
  double peak_tflops = 0;
};

}  // namespace ddprun
