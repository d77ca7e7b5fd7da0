// SPDX-License-Identifier: MIT
// Captures work of a CUDA stream for replay.
#pragma once

#include "device/device_backend.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>

#include <vector>

namespace ddprun {

// Captures what `work` submits to the current stream, which must not be the default one: each of its parts as a graph
// of its own, since all of a graph draws from one seed. The graphs' memory comes from `pool`, which belongs to all that
// hold it: no work may rely on another leaving its memory alone. Each replay advances the random numbers of the current
// GPU's default generator as if the work were done.
std::unique_ptr<DeviceGraph> capture_cuda_graph(const GraphWork& work, std::shared_ptr<const c10::MempoolId_t> pool);

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
