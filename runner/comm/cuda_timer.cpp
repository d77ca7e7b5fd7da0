// SPDX-License-Identifier: MIT
#include "comm/cuda_timer.h"

#include <utility>

namespace ddprun {

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
