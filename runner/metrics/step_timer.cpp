// SPDX-License-Identifier: MIT
#include "metrics/step_timer.h"

#include "base/current_op.h"

#include <torch/csrc/profiler/stubs/base.h>

#include <numeric>
#include <utility>

namespace ddprun {
namespace {

constexpr std::array<const char*, kStepPhases> kNames{"data",      "forward", "backward", "wait",
                                                      "optimizer", "graph",   "logging",  "other"};

}  // namespace

double PhaseSeconds::total() const { return std::accumulate(of.begin(), of.end(), 0.0); }

double PhaseSeconds::computing() const {
  const auto& self = *this;
  return self[StepPhase::kForward] + self[StepPhase::kBackward] + self[StepPhase::kWait] + self[StepPhase::kOptimizer] +
         self[StepPhase::kGraph];
}

PhaseSeconds& PhaseSeconds::operator+=(const PhaseSeconds& other) {
  for (size_t i = 0; i < kStepPhases; ++i) of[i] += other.of[i];
  return *this;
}

void StepTimer::begin(StepPhase phase) {
  if (muted_) return;
  if (timer_ && phase == StepPhase::kData) begin_step();
  mark(static_cast<int>(phase));
}

void StepTimer::begin_step() {
  constexpr int64_t kTimedOfAStride = 64;
  if (timed_ == kTimedOfAStride) {
    timed_ = 0;
    stride_ *= 2;
  }
  times_ = steps_++ % stride_ == 0;
  if (!times_) return;
  ++timed_;
  stood_for_ += stride_;
}

void StepTimer::pause() {
  if (phase_ >= 0) mark(-1);
}

void StepTimer::mark(int phase) {
  if (timer_) {
    mark_on_device(times_ ? phase : -1);
  } else {
    const auto now = Clock::now();
    if (phase_ >= 0) counted_.of[static_cast<size_t>(phase_)] += std::chrono::duration<double>(now - since_).count();
    since_ = now;
  }
  if (phase != phase_) show_range(phase);
  phase_ = phase;
}

void StepTimer::mark_on_device(int phase) {
  const bool nothing_ends = marks_.empty() || marks_.back().phase < 0;
  if (phase < 0 && nothing_ends) return;
  timer_->mark();
  marks_.push_back({phase, stride_});
}

// Shows the range of a phase, unless another thread begins it: a range belongs to its thread.
void StepTimer::show_range(int phase) {
  if (std::this_thread::get_id() != thread_) return;
  const auto* nvtx = torch::profiler::impl::cudaStubs();
  const bool on_gpu = timer_ && nvtx->enabled();
  if (range_ && on_gpu) nvtx->rangePop();
  range_.reset();
  if (phase < 0) return;
  const auto* name = kNames[static_cast<size_t>(phase)];
  range_.emplace(at::RecordScope::USER_SCOPE);
  if (range_->isActive()) range_->before(name);
  if (on_gpu) nvtx->rangePush(name);
}

PhaseSeconds StepTimer::take() {
  if (phase_ >= 0) mark(phase_);
  if (timer_ && !marks_.empty()) take_marks();
  return std::exchange(counted_, {});
}

void StepTimer::take_marks() {
  const auto seconds = [this] {
    const CurrentOpScope waiting(kWaitsForGpu);
    return timer_->take();
  }();
  const double share = stood_for_ > 0 ? static_cast<double>(steps_) / static_cast<double>(stood_for_) : 1;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const auto [phase, steps] = marks_[i];
    if (phase >= 0) counted_.of[static_cast<size_t>(phase)] += seconds[i] * static_cast<double>(steps) * share;
  }
  marks_ = {{marks_.back().phase, 1}};  // where the timer continues
  steps_ = timed_ = stood_for_ = 0;
  stride_ = 1;
  times_ = true;
}

}  // namespace ddprun
