// SPDX-License-Identifier: MIT
#include "train/phase_clock.h"

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

void PhaseClock::begin(StepPhase phase) { mark(static_cast<int>(phase)); }

void PhaseClock::pause() {
  if (phase_ >= 0) mark(-1);
}

void PhaseClock::mark(int phase) {
  if (timer_) {
    timer_->mark();
    marks_.push_back(phase);
  } else {
    const auto now = Clock::now();
    if (phase_ >= 0) counted_.of[static_cast<size_t>(phase_)] += std::chrono::duration<double>(now - since_).count();
    since_ = now;
  }
  if (phase != phase_) show_range(phase);
  phase_ = phase;
}

// A range belongs to its thread: what another one begins is not shown.
void PhaseClock::show_range(int phase) {
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

PhaseSeconds PhaseClock::take() {
  if (phase_ >= 0) mark(phase_);
  if (timer_ && !marks_.empty()) {
    const auto seconds = timer_->take();
    for (size_t i = 0; i < seconds.size(); ++i) {
      if (marks_[i] >= 0) counted_.of[static_cast<size_t>(marks_[i])] += seconds[i];
    }
    marks_ = {marks_.back()};  // where the timer goes on from
  }
  return std::exchange(counted_, {});
}

}  // namespace ddprun
