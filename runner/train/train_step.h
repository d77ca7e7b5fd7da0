// SPDX-License-Identifier: MIT
// One optimizer step of one rank: forward and backward over its part of a global batch, in micro-batches where it does
// not fit into memory at once, the exchange of gradients, their scaling and clipping, the optimizer, the average of the
// weights.
//
// The gradient is the mean over the samples of the global batch, however that is cut. Used from the training thread,
// and by all ranks alike.
#pragma once

#include "comm/communicator.h"
#include "comm/gradient_reducer.h"
#include "comm/shared_buffers.h"
#include "config/experiment.h"
#include "data/loader.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"
#include "train/cuda_graphs.h"
#include "train/data_parallel.h"
#include "train/ema.h"
#include "train/grad_scaler.h"
#include "train/gradients.h"
#include "train/precision.h"
#include "train/schedule.h"

#include <ddprun/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

// What one step has to tell.
struct StepOutcome {
  MetricSums sums;
  std::shared_ptr<DeviceNumbers> checked;

  // Whether the loss of this rank is NaN or infinite or, without a scaler, the gradients are; a scaler sees to those
  // itself. With trainer.on_nonfinite skip and no scaler it is equal on all ranks. Waits for the step.
  bool nonfinite() const { return !checked->all_finite(); }
};

// Throws PluginMistake unless it is a number to go back from.
void require_loss(const at::Tensor& loss);

// After a backward pass: the parameters that it has not reached, and what to tell of them.
std::vector<std::string> without_gradient(const std::vector<NamedParameter>& parameters);
std::string unused_text(const std::vector<std::string>& names);

class TrainStep {
 public:
  struct Parts {
    Communicator& communicator;
    std::shared_ptr<Model> model;  // on its device, in its precision
    std::shared_ptr<Optimizer> optimizer;
    const Objective& objective;
    Precision precision;
    c10::Device device;
    std::shared_ptr<DataParallel> parallel;  // with trainer.strategy dp: the model and its copies; else null
    StepTimer& timer;
    DeviceBackend* backend = nullptr;  // null on the CPU
  };

  TrainStep(Parts parts, const TrainerConfig& config, Schedule schedule);

  // The step after `step` steps. With trainer.on_nonfinite skip, a nonfinite one changes neither weights, optimizer,
  // averages and buffers nor the schedule's place. A watched one is computed operator by operator, not from a graph;
  // all ranks say the same.
  StepOutcome run(const TrainBatch& batch, int64_t step, bool watched = false);

  // Shows the gradients of the next run(), a watched one, averaged over the ranks, before they are clipped.
  void show_gradients(std::function<void(const std::vector<NamedParameter>&)> to) { shown_to_ = std::move(to); }

  // In place of run(): a step that is skipped.
  void skip() { ++skipped_; }

  // Forward, backward and exchange alone; the gradients are thrown away. Random generators and buffers change.
  void warm_up(const TrainBatch& batch) { compute(batch, 0, {.backward_only = true}); }

  // Forward and backward of the first `samples` samples on this rank alone; the gradients are thrown away.
  void try_micro_batch(const TrainBatch& batch, int64_t samples);

  // Calls `trial` while what later steps keep takes its memory: the optimizer's own, averages. Weights, optimizer and
  // averages, which have made no step yet, are as before then.
  void with_memory_of_a_step(const std::function<void()>& trial);

  // Samples of one rank in one pass, at most; 0: all of its part.
  void set_micro_batch(int64_t samples) { micro_batch_ = samples; }

  // Of the last step: "lr", and "lr_1", "lr_2" ... of the groups behind the first whose own rates are others.
  NamedValues lrs() const;
  Schedule& schedule() { return schedule_; }
  GradScaler& scaler() { return scaler_; }
  Ema& ema() { return ema_; }
  const Ema& ema() const { return ema_; }
  const CudaGraphs& graphs() const { return graphs_; }
  void set_scaler_state(const GradScaler::State& state);
  void restart();     // weights, averages or what the optimizer remembers have been loaded
  int64_t skipped();  // steps so far, besides the scaler's overflows
  void set_skipped(int64_t steps);

 private:
  struct MicroBatch {
    Batch batch;
    double weight = 1;    // of its mean loss in the mean over ranks
    int64_t samples = 0;  // that count; none where the batch is borrowed
    bool last = true;
  };
  // After the exchange: unscaled, checked, clipped.
  struct Gradients {
    at::Tensor checked;    // [n] float32, not all finite where the step is nonfinite
    at::Tensor found_inf;  // float32: not 0 where there shall be no step; undefined: there is one
    at::Tensor skipped;    // bool, with trainer.on_nonfinite skip: the step leaves buffers as they were
  };

  std::string why_not_capturable();
  StepResults compute(const TrainBatch& batch, int64_t step, const StepMode& mode);
  std::vector<MicroBatch> split(const TrainBatch& batch) const;
  at::Tensor forward(const MicroBatch& micro, MetricSums& sums);
  void tell_of_unused();
  Gradients finish_gradients(MetricSums& sums);
  void step_optimizer(const Gradients& gradients);
  void drop_gradients();
  bool skips() const { return config_.on_nonfinite == OnNonfinite::kSkip; }
  bool skips_by_norm() const { return skips() && !scaler_.enabled(); }
  void set_lrs(int64_t step);
  bool send_lrs();
  std::vector<at::Tensor> gradients() const;

  Parts parts_;
  TrainerConfig config_;
  Schedule schedule_;
  std::vector<NamedParameter> parameters_;
  std::vector<at::Tensor> buffers_;
  SharedBuffers shared_;
  std::vector<double> base_lrs_;  // the optimizer's own, one for each group
  GradientReducer reducer_;
  std::shared_ptr<BatchStatistics> statistics_;  // with sync_batchnorm
  GradScaler scaler_;                            // enabled with fp16
  GradientClip clip_;
  Ema ema_;            // with trainer.ema_decay
  GradientMark mark_;  // enabled where all ranks must see in the gradients that one's loss is nonfinite
  CudaGraphs graphs_;
  bool looked_for_unused_ = false;
  int64_t lrs_of_ = -1;                                               // the step under way whose learning rates are set
  std::function<void(const std::vector<NamedParameter>&)> shown_to_;  // null: nobody
  std::shared_ptr<DeviceNumbers> last_;  // of the step before, where it may have been skipped and is not counted yet
  int64_t skipped_ = 0;
  int64_t micro_batch_ = 0;
};

}  // namespace ddprun
