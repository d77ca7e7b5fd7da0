// SPDX-License-Identifier: MIT
// Writes a trace of some training steps for chrome://tracing and Perfetto, by LibTorch's profiler, with a GPU's
// kernels. Used from the training thread.
#pragma once

#include "features/profile/profile_section.h"
#include "train/feature.h"

#include <cstdint>
#include <filesystem>

namespace ddprun {

class Profiler final : public Feature {
 public:
  // Writes <run_dir>/profile/rank_<rank>_steps_<first>_<last>.json if this rank is one of those traced.
  Profiler(const ProfileConfig& config, std::filesystem::path run_dir, int64_t rank, bool gpu);
  ~Profiler() override;  // writes a trace under way
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void before_batch(int64_t step) override;
  Look look(int64_t step) override;  // alike on all ranks, whichever are traced
  void after_step(Loop& loop) override;

 private:
  void begin() const;
  void write() noexcept;

  ProfileConfig config_;
  std::filesystem::path run_dir_;
  int64_t rank_;
  bool gpu_, wanted_;
  int64_t first_ = 0, last_ = 0;  // steps: the first one traced, 0 if none is, and this one
};

}  // namespace ddprun
