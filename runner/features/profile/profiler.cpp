// SPDX-License-Identifier: MIT
#include "features/profile/profiler.h"

#include "base/log.h"
#include "step/context.h"

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

Look Profiler::look(int64_t step) {
  return step >= config_.steps.first && step <= config_.steps.last ? Look::kOperators : Look::kNone;
}

void Profiler::before_batch(int64_t step) {
  if (first_ == 0 && wanted_ && look(step) != Look::kNone) {
    begin();
    first_ = step;
  }
  last_ = step;
}

void Profiler::begin() const {
  if (!gpu_) ::setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);  // it would report an error without a GPU
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO, config_.shapes, config_.memory);
  profiler::prepareProfiler(config, activities(gpu_));
  profiler::enableProfiler(
      config, activities(gpu_),
      {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION});
}

void Profiler::after_step(Loop& /*loop*/) {
  if (first_ > 0 && last_ >= config_.steps.last) write();
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

std::unique_ptr<Feature> make_profile(const Context& context, const TrainPlan& /*plan*/) {
  const auto& config = context.experiment.features.of<ProfileConfig>();
  if (config.steps.last == 0) return nullptr;
  return std::make_unique<Profiler>(config, context.run_dir, context.communicator.world().rank,
                                    context.backend != nullptr);
}

}  // namespace ddprun
