// SPDX-License-Identifier: MIT
// Writes a trace of some training steps for chrome://tracing and Perfetto, by LibTorch's profiler, with a GPU's
// kernels. Used from the training thread.
#pragma once

#include "config/experiment.h"

#include <cstdint>
#include <filesystem>

namespace ddprun {

class Profiler {
 public:
  // Writes <run_dir>/profile/rank_<rank>_steps_<first>_<last>.json if this rank is one of those traced.
  Profiler(const ProfileConfig& config, std::filesystem::path run_dir, int64_t rank, bool gpu);
  ~Profiler();  // writes a trace under way
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  bool covers(int64_t step) const { return step >= config_.steps.first && step <= config_.steps.last; }  // on any rank

  void before(int64_t step);  // counted from 1
  void after(int64_t step);

 private:
  void write() noexcept;

  ProfileConfig config_;
  std::filesystem::path run_dir_;
  int64_t rank_;
  bool gpu_, wanted_;
  int64_t first_ = 0, last_ = 0;  // steps traced so far; 0: none
};

}  // namespace ddprun
