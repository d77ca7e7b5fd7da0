// SPDX-License-Identifier: MIT
// What a GPU adds to the runner. The code is in a library of its own (lib/ddprun/backends/cuda.so), loaded only if a
// GPU is used: libtorch_cuda costs 0.1 s and 235 MB in a process that never sees a GPU.
#pragma once

#include "device/flight_record.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace ddprun {

class ImageBatcher;
struct ImageForm;
struct ImageSource;

inline constexpr auto kGroupName = "ddprun";  // for the process group and its backends: torchfrtrace needs them equal

// The requirements of LibTorch's wheels.
struct CudaNeeds {
  int version = 13000;         // CUDA version, counted as by cuDriverGetVersion: 13.0
  const char* driver = "580";  // the first that runs it
  int capability = 75;         // the least compute capability that the kernels are compiled for: 7.5
};
inline constexpr CudaNeeds kCuda;

// Time marks in a GPU's queue.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;

  virtual void mark() = 0;  // does not wait

  // Returns the seconds from each mark to the next, once the GPU has passed the last one, which then becomes the first.
  virtual std::vector<double> take() = 0;
};

// Work to be captured, of one part or of several: it calls `next_part` between them.
using GraphWork = std::function<std::vector<at::Tensor>(const std::function<void()>& next_part)>;

// GPU work that was captured once.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // Enqueues it once more; does not wait. Calls `before_part` on the host before each part, with its number: what it
  // gives the default generator is what the part draws from.
  virtual void replay(const std::function<void(int64_t part)>& before_part = nullptr) = 0;

  // Returns what the work returned, after a replay: the same memory each time.
  virtual const std::vector<at::Tensor>& results() const = 0;
};

// How a process uses its GPU, or the first of several.
struct DeviceUsage {
  int64_t memory_bytes = 0;  // the most that its tensors held since the last time
  double percent = -1;       // of recent time in which the GPU computed, for whatever process; -1: unknown
};

// The memory of the first GPU.
struct DeviceMemory {
  int64_t free = 0;      // not taken by anybody
  int64_t reserved = 0;  // taken by this process: for its tensors, for later ones, and for its graphs alone
};

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  // Returns what this process uses: one GPU, or several with trainer.strategy dp. The model is on the first.
  virtual std::vector<c10::Device> devices() const = 0;
  c10::Device device() const { return devices().front(); }
  virtual std::string description() const = 0;  // of the first: "NVIDIA H200, 139 GiB"
  virtual c10::intrusive_ptr<c10d::Backend> make_group_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                               int64_t rank, int64_t size, double timeout_seconds) = 0;

  // Identifies this process's GPU on the machine, as NCCL does; empty: unknown.
  virtual std::string identity() const { return ""; }

  // Connects this GPU with those of all ranks of `group`, from make_group_backend; every rank must call it. Blocks,
  // forever if one cannot be reached. Safe to call from any thread.
  virtual void connect(c10d::Backend& /*group*/) {}

  virtual at::Generator generator(c10::Device device) const = 0;
  virtual FlightRecord flight_record() const = 0;  // of the collectives on GPUs; safe to call from any thread
  virtual void synchronize() = 0;
  virtual std::unique_ptr<DeviceTimer> make_timer() const = 0;  // for the current stream

  // Captures what `work` gives to the GPU, without running it. All tensors that it reads or writes must stay where they
  // are. Throws if it cannot be captured, because it waits for the GPU or throws itself; then, too, the GPU has done
  // nothing.
  virtual std::unique_ptr<DeviceGraph> capture(const GraphWork& work) = 0;

  virtual DeviceUsage usage() = 0;
  virtual void release_memory() = 0;  // returns what the allocator caches to the device
  virtual DeviceMemory memory() const = 0;

  // Copies the images to the first GPU, which makes batches of them from now on (imaging/image_batcher.h).
  virtual std::unique_ptr<ImageBatcher> hold_images(const ImageSource& source, const ImageForm& form) = 0;
};

// Lets the fork server (base/fork_server.h) load the backend's libraries for the workers, which takes longer than
// LibTorch alone, while this process continues. They touch no GPU until a worker uses them.
void preload_cuda_backend();

// Loads the backend and binds this process to GPU number `local_rank`, and to the next ones if `gpus` > 1. Throws
// UserError if the library or a GPU is missing.
std::shared_ptr<DeviceBackend> load_cuda_backend(int64_t local_rank, int64_t gpus = 1);

}  // namespace ddprun
