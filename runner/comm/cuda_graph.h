// SPDX-License-Identifier: MIT
// Captures work of a CUDA stream for replay.
#pragma once

#include "comm/device_backend.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>

#include <vector>

namespace ddprun {

// Captures what `work` submits to the current stream, which must not be the default one. The graph's memory comes from
// `pool`, which belongs to all graphs that hold it: none may rely on another leaving its memory alone. Each replay
// advances the random numbers of the current GPU's default generator as if the work were done.
std::unique_ptr<DeviceGraph> capture_cuda_graph(const std::function<std::vector<at::Tensor>()>& work,
                                                std::shared_ptr<const c10::MempoolId_t> pool);

// Times work on the current stream by events, which it reuses.
class CudaTimer final : public DeviceTimer {
 public:
  void mark() override;
  std::vector<double> take() override;

 private:
  std::vector<at::cuda::CUDAEvent> events_;
  size_t used_ = 0;
};

}  // namespace ddprun
