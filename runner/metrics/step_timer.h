// SPDX-License-Identifier: MIT
// Measures the time of one rank's training steps by phase. On a GPU the times are the GPU's own, from one mark in its
// queue to the next: the training thread does not wait for it. Profilers see each phase as a range of its name.
//
// Marks cost the host time and memory until they are read. So on a GPU the first 64 steps are timed, then every second
// of 128, every fourth of 256 and so on, each counting for that many: millions of short steps leave a few thousand
// marks.
//
// Used from the training thread; begin() also from a thread that it waits for.
#pragma once

#include "device/device_backend.h"

#include <ATen/record_function.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {

enum class StepPhase : size_t {
  kData,       // waiting for the batch and moving it
  kForward,    //
  kBackward,   // until this rank's last gradient
  kWait,       // for the other ranks: their gradients, buffers before the step, their new weights after it
  kOptimizer,  // including scaling, clipping and EMA
  kGraph,      // a replayed step: all four phases in one (trainer.cuda_graph)
  kLogging,    // rows, histograms; loggers work on them in the background
  kOther,      // the rest between two steps: agreement, checkpoints
};
inline constexpr size_t kStepPhases = 8;

struct PhaseSeconds {
  std::array<double, kStepPhases> of{};

  double operator[](StepPhase phase) const { return of[static_cast<size_t>(phase)]; }
  double total() const;
  double computing() const;  // forward, backward, waiting for the others, optimizer; and graphs
  PhaseSeconds& operator+=(const PhaseSeconds& other);
};

class StepTimer {
 public:
  explicit StepTimer(std::unique_ptr<DeviceTimer> timer) : timer_(std::move(timer)) {}  // null on the CPU

  void begin(StepPhase phase);  // also ends the previous one; a step begins with kData
  void pause();                 // ends the phase; no time counts until the next begin()

  // Makes begin() do nothing for a scope: a step that is captured, not run.
  class Muted {
   public:
    explicit Muted(StepTimer& timer) : timer_(timer) { timer_.muted_ = true; }
    ~Muted() { timer_.muted_ = false; }
    Muted(const Muted&) = delete;
    Muted& operator=(const Muted&) = delete;

   private:
    StepTimer& timer_;
  };

  // Returns the times since the last call. On a GPU it waits until the last ended phase is done there.
  PhaseSeconds take();

 private:
  using Clock = std::chrono::steady_clock;
  struct Mark {
    int phase;
    int64_t steps;  // represented by its time
  };

  void begin_step();
  void mark(int phase);
  void mark_on_device(int phase);
  void take_marks();
  void show_range(int phase);

  std::unique_ptr<DeviceTimer> timer_;  // null on the CPU
  std::vector<Mark> marks_;             // with a timer: the phase that begins at each mark
  int64_t steps_ = 0;                   // with a timer, since its times were read
  int64_t timed_ = 0, stood_for_ = 0;   // of these, those with marks; those that they represent
  int64_t stride_ = 1;                  // the current step represents this many
  bool times_ = true;                   // whether the current step is timed
  bool muted_ = false;
  Clock::time_point since_;
  int phase_ = -1;  // the current one; -1: none
  PhaseSeconds counted_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::optional<at::RecordFunction> range_;  // for LibTorch's profiler, and for NVTX on a GPU
};

}  // namespace ddprun
