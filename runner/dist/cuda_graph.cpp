// SPDX-License-Identifier: MIT
#include "dist/cuda_graph.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>

#include <stdexcept>
#include <utility>

namespace ddprun {
namespace {

// LibTorch's, which can also be given up: after a failure in between, its own capture_end() leaves the allocators and the
// generators in the state of a recording, and the next random number throws.
class Recording final : public at::cuda::CUDAGraph {
 public:
  void abandon() {
    cudaGraph_t unfinished = nullptr;
    static_cast<void>(cudaStreamEndCapture(capture_stream_, &unfinished));  // why it is given up is known
    if (unfinished) static_cast<void>(cudaGraphDestroy(unfinished));
    static_cast<void>(cudaGetLastError());  // or the next call would find it
    auto& host = *at::getHostAllocator(at::kCUDA);
    c10::cuda::CUDACachingAllocator::endAllocateToPool(capture_dev_, mempool_id_);
    host.end_allocate_to_pool(mempool_id_);
    c10::cuda::CUDACachingAllocator::releasePool(capture_dev_, mempool_id_);
    host.release_pool(mempool_id_);
    for (auto& [generator, increment] : captured_generator_states_) generator->capturing_ = false;
  }
};

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(const std::function<std::vector<at::Tensor>()>& work, std::shared_ptr<const c10::MempoolId_t> pool)
      : pool_(std::move(pool)) {
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::
        emptyCache();  // the pool's memory is its own: what steps outside it kept is free now
    // Other threads load batches meanwhile, which may allocate page-locked memory: that is theirs.
    graph_.capture_begin(*pool_, cudaStreamCaptureModeThreadLocal);
    try {
      results_ = work();
      const bool intact = at::cuda::currentStreamCaptureStatus() == at::cuda::CaptureStatus::Active;
      if (!intact) throw std::runtime_error("something in it cannot be part of a CUDA graph");
    } catch (...) {
      results_.clear();
      graph_.abandon();
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }
  const std::vector<at::Tensor>& results() const override { return results_; }

 private:
  std::shared_ptr<const c10::MempoolId_t> pool_;  // outlives the graph
  Recording graph_;
  std::vector<at::Tensor> results_;
};

}  // namespace

std::unique_ptr<DeviceGraph> record_cuda_graph(const std::function<std::vector<at::Tensor>()>& work,
                                               std::shared_ptr<const c10::MempoolId_t> pool) {
  return std::make_unique<CudaGraph>(work, std::move(pool));
}

}  // namespace ddprun
