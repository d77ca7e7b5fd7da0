// SPDX-License-Identifier: MIT
// What a GPU adds to the runner. Its code lies in a library of its own (lib/ddprun/backends/cuda.so), loaded only where
// a GPU is used: libtorch_cuda costs 0.1 s and 235 MB in a process that never sees a GPU.
#pragma once

#include "comm/flight_record.h"

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

inline constexpr auto kGroupName = "ddprun";  // of the process group and of its backends: torchfrtrace wants them equal

// What LibTorch's wheels are made for.
struct CudaNeeds {
  int version = 13000;         // of CUDA, as cuDriverGetVersion counts: 13.0
  const char* driver = "580";  // the first that runs it
  int capability = 75;         // the least compute capability that their kernels are compiled for: 7.5
};
inline constexpr CudaNeeds kCuda;

// Marks in the queue of work of a GPU.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;

  virtual void mark() = 0;  // does not wait

  // Seconds from each mark to the next, once the GPU has passed the last, which is the first of the next time.
  virtual std::vector<double> take() = 0;
};

// Work of a GPU, captured once.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  virtual void replay() = 0;  // puts it into the GPU's queue once more; does not wait

  // What the work returned, after a replay: the same memory each time.
  virtual const std::vector<at::Tensor>& results() const = 0;
};

// What a process makes of its GPU; the first of several.
struct DeviceUsage {
  int64_t memory_bytes = 0;  // the most that its tensors held since the last time
  double percent = -1;       // of the last moments in which the GPU computed, for whomever; -1: it cannot be told
};

// The first GPU's.
struct DeviceMemory {
  int64_t free = 0;      // that nobody has taken
  int64_t reserved = 0;  // that this process has taken: for its tensors, for later ones, and for its graphs alone
};

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  // What this process uses: one GPU, or several with trainer.strategy dp. The first is where the model is.
  virtual std::vector<c10::Device> devices() const = 0;
  c10::Device device() const { return devices().front(); }
  virtual std::string description() const = 0;  // of the first: "NVIDIA H200, 139 GiB"
  virtual c10::intrusive_ptr<c10d::Backend> make_group_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                               int64_t rank, int64_t size, double timeout_seconds) = 0;

  // Tells this process's GPU apart from the machine's others, as NCCL does; empty: it cannot be told.
  virtual std::string identity() const { return ""; }

  // Connects this GPU with those of all ranks of `group`, which make_group_backend has made; each rank calls it.
  // Blocks, for ever where one cannot be reached. Threads: any.
  virtual void connect(c10d::Backend& /*group*/) {}

  virtual at::Generator generator(c10::Device device) const = 0;
  virtual FlightRecord flight_record() const = 0;  // of the collectives on GPUs. Threads: any
  virtual void synchronize() = 0;
  virtual std::unique_ptr<DeviceTimer> make_timer() const = 0;  // of the current stream

  // Records what `work` gives to the GPU, which does nothing of it yet. All tensors that it reads or writes must stay
  // where they are. Throws where it cannot be captured, because it waits for the GPU or throws itself; the GPU has done
  // nothing then either.
  virtual std::unique_ptr<DeviceGraph> capture(const std::function<std::vector<at::Tensor>()>& work) = 0;

  virtual DeviceUsage usage() = 0;
  virtual void release_memory() = 0;  // what the allocator keeps without need, back to the device
  virtual DeviceMemory memory() const = 0;

  // Copies the images to the first GPU, where batches are made of them from here on (imaging/image_batcher.h).
  virtual std::unique_ptr<ImageBatcher> hold_images(const ImageSource& source, const ImageForm& form) = 0;
};

// Loads the backend and binds this process to GPU number `local_rank`, and to those after it that make up `gpus`.
// Throws UserError where the library or a GPU is missing.
std::shared_ptr<DeviceBackend> load_cuda_backend(int64_t local_rank, int64_t gpus = 1);

}  // namespace ddprun
