// SPDX-License-Identifier: MIT
#pragma once

#include "comm/device_backend.h"

#include <ATen/cuda/CUDAGraph.h>

namespace ddprun {

// What `work` gives to the current stream, which is not the default one, as a CUDA graph. Its memory is of `pool`,
// which belongs to the graphs that hold it: none of them may expect another to leave its memory alone. Random numbers
// of the current GPU's default generator go on with each replay as if the work were done.
std::unique_ptr<DeviceGraph> capture_cuda_graph(const std::function<std::vector<at::Tensor>()>& work,
                                                std::shared_ptr<const c10::MempoolId_t> pool);

}  // namespace ddprun
