// SPDX-License-Identifier: MIT
#include "device/cuda_graph.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/headeronly/version.h>

#include <deque>
#include <stdexcept>
#include <utility>

namespace ddprun {
namespace {

// LibTorch's graph that can also be abandoned: after a failure between capture_begin() and the end of capture_end(),
// allocators and generators are still in capture mode, and the next random number throws.
class Recording final : public at::cuda::CUDAGraph {
 public:
#if TORCH_VERSION_MINOR >= 14
  // capture_end() restores what a capture has changed even if it fails; the destructor does the rest.
  void abandon() {
    if (!capturing_to_pool_) return;
    try {
      capture_end();
    } catch (const c10::Error&) {  // a consequence of the failure being handled
      static_cast<void>(cudaGetLastError());
    }
  }
#else
  void abandon() {
    if (capture_ended_) return;  // nothing is open: the destructor does the rest
    for (auto& [generator, increment] : captured_generator_states_) generator->capturing_ = false;
    const bool allocates = mempool_id_ != c10::MempoolId_t{0, 0};  // the capture got as far as allocating
    if (!allocates) return;
    end_capture();
    auto& host = *at::getHostAllocator(at::kCUDA);
    c10::cuda::CUDACachingAllocator::endAllocateToPool(capture_dev_, mempool_id_);
    host.end_allocate_to_pool(mempool_id_);
    c10::cuda::CUDACachingAllocator::releasePool(capture_dev_, mempool_id_);
    host.release_pool(mempool_id_);
  }

 private:
  // An error here means that the failure being handled has already ended the capture.
  void end_capture() {
    cudaGraph_t unfinished = nullptr;
    static_cast<void>(cudaStreamEndCapture(capture_stream_, &unfinished));
    if (unfinished) static_cast<void>(cudaGraphDestroy(unfinished));
    static_cast<void>(cudaGetLastError());  // clear it, or the next call would report it
  }
#endif
};

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(const GraphWork& work, std::shared_ptr<const c10::MempoolId_t> pool) : pool_(std::move(pool)) {
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();  // the pool's memory is its own: what steps outside it kept is free
                                                    // now
    try {
      begin_part();
      results_ = work([this] {
        end_part();
        begin_part();
      });
      end_part();
    } catch (...) {
      results_.clear();
      parts_.back().abandon();
      throw;
    }
  }

  void replay(const std::function<void(int64_t part)>& before_part) override {
    for (int64_t number = 0; auto& part : parts_) {
      if (before_part) before_part(number++);
      part.replay();
    }
  }
  const std::vector<at::Tensor>& results() const override { return results_; }

 private:
  // Other threads load batches meanwhile, and are free to allocate page-locked memory.
  void begin_part() { parts_.emplace_back().capture_begin(*pool_, cudaStreamCaptureModeThreadLocal); }

  void end_part() {
    const bool intact = at::cuda::currentStreamCaptureStatus() == at::cuda::CaptureStatus::Active;
    if (!intact) throw std::runtime_error("something in it cannot be part of a CUDA graph");
    parts_.back().capture_end();  // also fails if work on another stream has not rejoined this one
  }

  std::shared_ptr<const c10::MempoolId_t> pool_;  // must outlive the graphs
  std::deque<Recording> parts_;                   // they stay in place
  std::vector<at::Tensor> results_;
};

}  // namespace

std::unique_ptr<DeviceGraph> capture_cuda_graph(const GraphWork& work, std::shared_ptr<const c10::MempoolId_t> pool) {
  return std::make_unique<CudaGraph>(work, std::move(pool));
}

void CudaTimer::mark() {
  if (used_ == events_.size()) events_.emplace_back(cudaEventDefault);  // with timing
  events_[used_++].record();
}

std::vector<double> CudaTimer::take() {
  constexpr double kSecondsPerMillisecond = 1e-3;
  std::vector<double> seconds;
  if (used_ == 0) return seconds;
  events_[used_ - 1].synchronize();
  for (size_t i = 1; i < used_; ++i)
    seconds.push_back(events_[i - 1].elapsed_time(events_[i]) * kSecondsPerMillisecond);
  std::swap(events_[0], events_[used_ - 1]);
  used_ = 1;
  return seconds;
}

}  // namespace ddprun
