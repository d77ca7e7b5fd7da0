// SPDX-License-Identifier: MIT
// The GPU backend, compiled into a library of its own (device_backend.h).
#include "device/cuda_graph.h"
#include "device/device_backend.h"
#include "device/gpu_utilization.h"
#include "imaging/cuda_image_batcher.h"
#include "imaging/kernel_compiler.h"

#include <ddprun/api.h>
#include <ddprun/error.h>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace ddprun {
namespace {

static_assert(CUDART_VERSION / 1000 == kCuda.version / 1000, "device_backend.h says which driver this CUDA needs");

// The launcher has found GPUs; if CUDA has not, its error says why.
int64_t gpus_found() try { return c10::cuda::device_count_ensure_non_zero(); } catch (const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  const auto cause = text.find("Error ");  // follows a guess about the program's mistake
  throw UserError("launch.device: CUDA cannot use the GPUs: " + text.substr(cause == text.npos ? 0 : cause) +
                  ". launch.device=cpu trains without them");
}

class CudaBackend final : public DeviceBackend {
 public:
  CudaBackend(int64_t local_rank, int64_t gpus) {
    const int64_t found = gpus_found();
    if (local_rank + gpus > found) {
      throw UserError("launch.workers: worker " + std::to_string(local_rank) + " of this node has no GPU: " +
                      std::to_string(found) + " found. Use at most as many workers as GPUs, or launch.device=cpu.");
    }
    for (int64_t i = 0; i < gpus; ++i) {
      devices_.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(local_rank + i));
    }
    c10::cuda::set_device(device().index());
    at::globalContext().lazyInitDevice(at::kCUDA);
    load_kernel_compiler();
    if (gpus == 1) leave_default_stream();
    utilization_ = std::make_unique<GpuUtilization>(device().index());
  }

  std::vector<c10::Device> devices() const override { return devices_; }

  std::string description() const override {
    const auto* properties = at::cuda::getDeviceProperties(device().index());
    return std::string(properties->name) + ", " + std::to_string(properties->totalGlobalMem >> 30) + " GiB";
  }

  c10::intrusive_ptr<c10d::Backend> make_group_backend(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank,
                                                       int64_t size, double timeout_seconds) override {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
    options->group_name = kGroupName;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(rank), static_cast<int>(size), options);
  }

  // Returns "PCI 0000:3B:00.0", the same for all parts of a card that is divided (MIG).
  std::string identity() const override {
    char place[32] = "";
    C10_CUDA_CHECK(cudaDeviceGetPCIBusId(place, sizeof place, device().index()));
    return std::string("PCI ") + place;
  }

  // NCCL opens the channels of collectives in the first of their kind.
  void connect(c10d::Backend& group) override {
    const c10::cuda::CUDAGuard guard(device());  // for the connecting thread
    group.eagerConnectSingleDevice(device());
    std::vector<at::Tensor> value{at::zeros({1}, at::TensorOptions(device()).dtype(at::kFloat))};
    group.allreduce(value)->wait();
    group.broadcast(value)->wait();
    c10::cuda::device_synchronize();
  }

  at::Generator generator(c10::Device device) const override {
    return at::cuda::detail::getDefaultCUDAGenerator(device.index());
  }

  FlightRecord flight_record() const override {
    return {.pickled =
                c10d::dump_nccl_trace(/*includeCollectives=*/true, /*includeStackTraces=*/false, /*onlyActive=*/false),
            .under_way = c10d::dump_nccl_trace_json(/*includeCollectives=*/true, /*onlyActive=*/true)};
  }

  void synchronize() override { c10::cuda::device_synchronize(); }
  std::unique_ptr<DeviceTimer> make_timer() const override { return std::make_unique<CudaTimer>(); }

  std::unique_ptr<DeviceGraph> capture(const GraphWork& work) override {
    auto pool = graph_pool_.lock();
    if (!pool) graph_pool_ = pool = std::make_shared<c10::MempoolId_t>(at::cuda::graph_pool_handle());
    return capture_cuda_graph(work, std::move(pool));
  }

  DeviceUsage usage() override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device().index());
    c10::cuda::CUDACachingAllocator::resetPeakStats(device().index());
    return {.memory_bytes = stats.allocated_bytes[kAll].peak, .percent = utilization_->percent()};
  }
  void release_memory() override { c10::cuda::CUDACachingAllocator::emptyCache(); }

  DeviceMemory memory() const override {
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device().index());
    return {.free = static_cast<int64_t>(free), .reserved = stats.reserved_bytes[kAll].current};
  }

  std::unique_ptr<ImageBatcher> hold_images(const ImageSource& source, const ImageForm& form) override {
    if (!kernels_) kernels_ = compile_image_kernels(device());
    return make_cuda_image_batcher(source, form, device(), kernels_);
  }

 private:
  static constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

  // The default stream cannot be captured. The model, its gradients' hooks and all copies belong to this thread, so all
  // of them move to this stream; several GPUs are used by several threads, which meet on the default streams.
  void leave_default_stream() const {
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(false, device().index()));
  }

  std::vector<c10::Device> devices_;
  std::unique_ptr<GpuUtilization> utilization_;
  std::shared_ptr<const ImageKernels> kernels_;       // set with the first images
  std::weak_ptr<const c10::MempoolId_t> graph_pool_;  // shared by all graphs: they run one after the other
};

}  // namespace
}  // namespace ddprun

extern "C" DDPRUN_API void ddprun_create_cuda_backend(int64_t local_rank, int64_t gpus,
                                                      std::shared_ptr<ddprun::DeviceBackend>* out) {
  *out = std::make_shared<ddprun::CudaBackend>(local_rank, gpus);
}
