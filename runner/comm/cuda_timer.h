// SPDX-License-Identifier: MIT
// Times work on a CUDA stream by events.
#pragma once

#include "comm/device_backend.h"

#include <ATen/cuda/CUDAEvent.h>

#include <vector>

namespace ddprun {

// Reuses events on the current stream.
class CudaTimer final : public DeviceTimer {
 public:
  void mark() override;
  std::vector<double> take() override;

 private:
  std::vector<at::cuda::CUDAEvent> events_;
  size_t used_ = 0;
};

}  // namespace ddprun
