// SPDX-License-Identifier: MIT
// How busy a GPU is, from the driver's management library (NVML), which is loaded where it is there.
#pragma once

#include <memory>

namespace ddprun {

class GpuUtilization {
 public:
  explicit GpuUtilization(int device);  // of this process: CUDA_VISIBLE_DEVICES has been taken into account
  ~GpuUtilization();
  GpuUtilization(const GpuUtilization&) = delete;
  GpuUtilization& operator=(const GpuUtilization&) = delete;

  // Percent of the driver's last sample, up to a second, in which some kernel ran; -1 where it cannot be told.
  double percent() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;  // null where there is none
  void* handle_ = nullptr;
};

}  // namespace ddprun
