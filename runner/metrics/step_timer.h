// SPDX-License-Identifier: MIT
// Where the time of one rank's training steps goes. On a GPU the times are the GPU's own, from one mark in its queue to
// the next: the training thread does not wait for it. For profilers each phase is a range of its name.
//
// Marks cost the host time and memory until they are taken. So on a GPU the first 64 steps are timed, then every second
// of 128, every fourth of 256 and so on, each of which counts for as many: short steps by the million leave a few
// thousand marks.
//
// Used from the training thread; begin() also from a thread that it waits for.
#pragma once

#include "comm/device_backend.h"

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
  kBackward,   // up to this rank's last gradient
  kWait,       // for the other ranks: their gradients, buffers before the step
  kOptimizer,  // with scaling, clipping, the average of weights
  kGraph,      // a step that is replayed as a whole: all four in one (trainer.cuda_graph)
  kLogging,    // rows, histograms; what loggers do with them is done beside the training
  kOther,      // what else is between two steps: agreement, checkpoints
};
inline constexpr size_t kStepPhases = 8;

struct PhaseSeconds {
  std::array<double, kStepPhases> of{};

  double operator[](StepPhase phase) const { return of[static_cast<size_t>(phase)]; }
  double total() const;
  double computing() const;  // forward, backward, waiting for the others, optimizer; graphs of them
  PhaseSeconds& operator+=(const PhaseSeconds& other);
};

class StepTimer {
 public:
  explicit StepTimer(std::unique_ptr<DeviceTimer> timer) : timer_(std::move(timer)) {}  // null on the CPU

  void begin(StepPhase phase);  // and ends the one before; a step begins with kData
  void pause();                 // ends it; until the next begin() no time counts

  // For a scope in which begin() does nothing: a step that is captured, and not made.
  class Muted {
   public:
    explicit Muted(StepTimer& timer) : timer_(timer) { timer_.muted_ = true; }
    ~Muted() { timer_.muted_ = false; }
    Muted(const Muted&) = delete;
    Muted& operator=(const Muted&) = delete;

   private:
    StepTimer& timer_;
  };

  // What counted since the last call. On a GPU it waits until the last phase that has ended is done there.
  PhaseSeconds take();

 private:
  using Clock = std::chrono::steady_clock;
  struct Mark {
    int phase;
    int64_t steps;  // that its time stands for
  };

  void begin_step();
  void mark(int phase);
  void mark_on_device(int phase);
  void take_marks();
  void show_range(int phase);

  std::unique_ptr<DeviceTimer> timer_;  // null on the CPU
  std::vector<Mark> marks_;             // with a timer: what begins at each of its marks
  int64_t steps_ = 0;                   // with a timer, since its times were taken
  int64_t timed_ = 0, stood_for_ = 0;   // of these: that have marks; that those stand for
  int64_t stride_ = 1;                  // the step under way is one of so many
  bool times_ = true;                   // this one
  bool muted_ = false;
  Clock::time_point since_;
  int phase_ = -1;  // under way; -1: none
  PhaseSeconds counted_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::optional<at::RecordFunction> range_;  // of LibTorch's profiler, and one of NVTX on a GPU
};

}  // namespace ddprun
