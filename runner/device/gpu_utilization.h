// SPDX-License-Identifier: MIT
// Measures how busy a GPU is through the driver's management library (NVML), if it can be loaded.
#pragma once

#include <memory>

namespace ddprun {

class GpuUtilization {
 public:
  explicit GpuUtilization(int device);  // numbered within this process: CUDA_VISIBLE_DEVICES has been applied
  ~GpuUtilization();
  GpuUtilization(const GpuUtilization&) = delete;
  GpuUtilization& operator=(const GpuUtilization&) = delete;

  // Returns the percentage of the driver's last sample, up to a second, in which some kernel ran; -1 if unknown.
  double percent() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;  // null if there is none
  void* handle_ = nullptr;
};

}  // namespace ddprun
