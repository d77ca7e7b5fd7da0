// SPDX-License-Identifier: MIT
// One optimizer step of one rank: forward and backward over its part of a global batch, in several passes where it does
// not fit into memory at once, the exchange of gradients, their scaling and clipping, the optimizer, the average of
// weights.
//
// Whatever is cut how often: the gradient is the mean over the samples of the global batch. Used from the training
// thread, and by all ranks alike.
#pragma once

#include "comm/batch_statistics.h"
#include "comm/communicator.h"
#include "comm/gradient_reducer.h"
#include "comm/shared_buffers.h"
#include "config/experiment.h"
#include "data/loader.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"
#include "train/cuda_graphs.h"
#include "train/data_parallel.h"
#include "train/device_numbers.h"
#include "train/ema.h"
#include "train/grad_scaler.h"
#include "train/gradient_mark.h"
#include "train/precision.h"
#include "train/schedule.h"

#include <ddprun/optimizer.h>

#include <functional>
#include <memory>
#include <optional>
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
    std::shared_ptr<DataParallel> parallel;  // with trainer.strategy dp: the model and its copies
    StepTimer* clock = nullptr;              // told of each phase; may be null
    DeviceBackend* backend = nullptr;        // null on the CPU
  };

  TrainStep(Parts parts, const TrainerConfig& config, Schedule schedule);

  // The step after `step` steps. With trainer.on_nonfinite skip, a nonfinite one changes neither weights, optimizer,
  // averages and buffers nor the schedule's place. `watched`, on all ranks alike: operator by operator, not from a
  // graph.
  StepOutcome run(const TrainBatch& item, int64_t step, bool watched = false);

  // Shows the gradients of the next run(), a watched one, averaged over the ranks, before they are clipped.
  void show_gradients(std::function<void(const std::vector<NamedParameter>&)> to) { shown_to_ = std::move(to); }

  // In place of run(): a step that is passed over.
  void leave_out() { ++unapplied_; }

  // Forward, backward and exchange alone; the gradients are thrown away. Random generators and buffers change.
  void rehearse(const TrainBatch& item);

  // Forward and backward of the first `samples` samples on this rank alone; the gradients are thrown away.
  void try_micro_batch(const TrainBatch& item, int64_t samples);

  // Calls `trial` while what later steps keep takes its memory: the optimizer's own, averages. Weights, optimizer and
  // averages, which have made no step yet, are as before then.
  void with_memory_of_a_step(const std::function<void()>& trial);

  // Samples of one rank in one pass, at most; 0: all of its part.
  void set_micro_batch(int64_t samples) { micro_batch_ = samples; }

  // Of the last step: "lr", and "lr_1", "lr_2" ... of the groups behind the first whose own rates are others.
  NamedValues rates() const;
  Schedule& schedule() { return schedule_; }
  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  Ema* average() { return average_ ? &*average_ : nullptr; }
  const Ema* average() const { return average_ ? &*average_ : nullptr; }
  void set_scaler_state(const GradScaler::State& state);
  void forget_graphs();             // weights, averages or what the optimizer remembers have been loaded
  std::string graph_state() const;  // "replayed", or why steps are not, for the summary
  int64_t replayed() const { return graphs_ ? graphs_->replayed() : 0; }
  int64_t unapplied();  // steps so far that were left out, besides the scaler's overflows
  void set_unapplied(int64_t steps);

 private:
  struct Pass {
    Batch batch;
    double weight = 1;    // of its mean loss in the mean over ranks
    int64_t samples = 0;  // that count; none where the batch is borrowed
  };

  std::vector<Pass> passes(const TrainBatch& item) const;
  void tell_of_unused() const;
  void make_graphs();
  std::string unrecordable();
  StepResults results(const TrainBatch& item, int64_t step, bool watched);
  StepResults ordinary(const TrainBatch& item, const StepMode& mode, const std::function<void()>& rates);
  StepResults compute(const TrainBatch& item, const StepMode& mode, const std::function<void()>& rates);
  void accumulate(const std::vector<Pass>& passes, MetricSums* window, bool alone = false);
  at::Tensor forward(const Pass& pass, MetricSums* window);
  struct Gradients;
  Gradients finished_gradients(MetricSums& sums);
  void apply(const Gradients& gradients, const std::function<void()>& rates);
  void drop_gradients();
  bool skips() const { return config_.on_nonfinite == "skip"; }
  bool skips_by_norm() const { return skips() && !parts_.precision.scales_gradients(); }
  void set_rates(int64_t step);
  bool send_rates();
  std::vector<at::Tensor> gradients() const;
  void phase(StepPhase phase) {
    if (parts_.clock && !recording_) parts_.clock->begin(phase);
  }

  Parts parts_;
  TrainerConfig config_;
  Schedule schedule_;
  std::vector<NamedParameter> parameters_;
  std::vector<at::Tensor> buffers_;
  SharedBuffers shared_;
  std::vector<double> base_rates_;               // the optimizer's own, one for each group
  std::unique_ptr<GradientReducer> reducer_;     // none for a world of one
  std::shared_ptr<BatchStatistics> statistics_;  // with sync_batchnorm
  std::optional<GradScaler> scaler_;             // with fp16
  std::optional<Ema> average_;
  std::optional<GradientMark> mark_;  // where all ranks must see in the gradients that one's loss is nonfinite
  std::optional<CudaGraphs> graphs_;  // on a GPU, with trainer.cuda_graph
  bool looked_for_unused_ = false;
  bool recording_ = false,
       applied_ = false;  // the step under way: nothing of it counts for the clock; has the optimizer begun?
  std::function<void(const std::vector<NamedParameter>&)> shown_to_;  // null: nobody
  std::shared_ptr<DeviceNumbers> last_;  // of the step before, where it may have been skipped and is not counted yet
  int64_t unapplied_ = 0;
  int64_t micro_batch_ = 0;
};

}  // namespace ddprun
