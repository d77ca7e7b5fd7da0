// SPDX-License-Identifier: MIT
#include "metrics/profiler.h"

#include "base/log.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdlib>
#include <set>
#include <utility>

namespace ddprun {
namespace {

namespace profiler = torch::autograd::profiler;

std::set<profiler::ActivityType> activities(bool gpu) {
  std::set<profiler::ActivityType> activities{profiler::ActivityType::CPU};
  if (gpu) activities.insert(profiler::ActivityType::CUDA);
  return activities;
}

}  // namespace

Profiler::Profiler(const ProfileConfig& config, std::filesystem::path run_dir, int64_t rank, bool gpu)
    : config_(config),
      run_dir_(std::move(run_dir)),
      rank_(rank),
      gpu_(gpu),
      wanted_(config.steps.last > 0 && rank < config.ranks) {}

Profiler::~Profiler() {
  if (first_ > 0) write();
}

void Profiler::before(int64_t step) {
  const auto& steps = config_.steps;
  if (!wanted_ || first_ > 0 || step < steps.first || step > steps.last) return;
  if (!gpu_) ::setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);  // it would report an error without a GPU
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO, config_.shapes, config_.memory);
  profiler::prepareProfiler(config, activities(gpu_));
  profiler::enableProfiler(
      config, activities(gpu_),
      {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION});
  first_ = step;
}

void Profiler::after(int64_t step) {
  if (first_ == 0) return;
  last_ = step;
  if (step >= config_.steps.last) write();
}

// Writes the trace. A failure is only a warning, since training is worth more.
void Profiler::write() noexcept try {
  wanted_ = false;
  const auto result = profiler::disableProfiler();
  const auto folder = run_dir_ / "profile";
  std::filesystem::create_directories(folder);
  const auto file = folder / log::text("rank_", rank_, "_steps_", std::exchange(first_, 0), "_", last_, ".json");
  result->save(file.string());
  if (rank_ == 0) log::info("profile: wrote " + file.string() + ", for chrome://tracing or ui.perfetto.dev");
} catch (const std::exception& error) {
  log::warn(std::string("profile: ") + error.what());
}

}  // namespace ddprun
