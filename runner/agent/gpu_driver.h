// SPDX-License-Identifier: MIT
// The GPUs' driver, asked without a CUDA library of ours.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

struct GpuModel {
  std::string name;
  int capability = 0;  // 75 is 7.5; 0: not known
};

struct GpuDriver {
  std::vector<GpuModel> gpus;  // that CUDA_VISIBLE_DEVICES leaves this process
  int cuda = 0;                // the newest CUDA that it runs: 12040 is 12.4; 0: there is no driver
  std::string problem;         // why it does not start, where it is there and does not; else empty
};

GpuDriver find_gpu_driver();

}  // namespace ddprun
