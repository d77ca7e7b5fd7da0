// SPDX-License-Identifier: MIT
// Runs one optimizer step of one rank: forward and backward over its part of a global batch, in micro-batches if it
// does not fit into memory at once or in shards if the bits must not depend on the ranks, the exchange of gradients,
// their scaling and clipping, the optimizer, of all parameters or of this rank's share, and the EMA.
//
// The gradient is the mean over what counts in the global batch, its samples, symbols or pixels, however it is split.
// Used from the training thread, by all ranks alike.
#pragma once

#include "comm/gradient_reducer.h"
#include "comm/shared_buffers.h"
#include "data/loader.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"
#include "train/context.h"
#include "train/counted_mean.h"
#include "train/cuda_graphs.h"
#include "train/ema.h"
#include "train/flop_count.h"
#include "train/grad_scaler.h"
#include "train/gradients.h"
#include "train/lr_policy.h"
#include "train/operator_listener.h"
#include "train/optimizer_share.h"
#include "train/step_recorder.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// The results of one step, on their way to the host.
class StepOutcome {
 public:
  StepOutcome() = default;
  StepOutcome(const StepResults& results, c10::Device device);

  // Returns whether the loss of this rank is NaN or infinite or, without a scaler, the gradients are; a scaler handles
  // those itself. It is equal on all ranks with trainer.on_nonfinite skip and no scaler. Waits for the step.
  bool nonfinite() const { return !numbers_->all_finite(results_.checked); }

  bool is_there() const { return numbers_->are_there(); }  // whether nothing here waits
  MetricSums sums() const;                                 // with scalars on the host; waits for the step

  // Returns the mean loss of the samples that count, a float32 scalar on the model's device; undefined if there are
  // none. Does not wait. Only before the next step.
  at::Tensor mean_loss() const;

 private:
  StepResults results_;
  c10::Device device_{at::kCPU};
  std::shared_ptr<DeviceNumbers> numbers_;
};

// Throws PluginMistake unless the loss is a number that backward can start from.
void require_loss(const at::Tensor& loss);

// Return the parameters that a backward pass has not reached, and the message about them.
std::vector<std::string> without_gradient(const std::vector<NamedParameter>& parameters);
std::string unused_text(const std::vector<std::string>& names);

class TrainStep {
 public:
  // Both references outlive it.
  TrainStep(const Context& context, StepTimer& timer, Schedule schedule, OptimizerShare share = {});

  // Trains, from the next step on, the parameters that require gradients now: others than before.
  void take_parameters();

  // Runs the step after `step` steps. A nonfinite one changes, with trainer.on_nonfinite skip, neither weights,
  // optimizer, averages and buffers nor the position in the schedule. A watched step is computed operator by operator,
  // not from a graph; all ranks pass the same.
  StepOutcome run(const TrainBatch& batch, int64_t step, bool watched = false);

  // Has the next run(), a watched one, recorded; `recorder` outlives it.
  void record(StepRecorder& recorder) { recorder_ = &recorder; }

  // Has the operations of the next run() counted, if nothing else listens to it; `count` outlives it.
  void count(FlopCount& count) { flops_ = &count; }

  // Shows the gradients of the next run(), a watched one, averaged over the ranks and before clipping. Called on all
  // ranks alike; `to` may be null.
  void show_gradients(std::function<void(const std::vector<NamedParameter>&)> to) {
    shows_ = true;
    shown_to_ = std::move(to);
  }

  // Gets the weights that other ranks have stepped (trainer.shard_optimizer), which the next run() would do.
  // Collective; to be called before anybody reads weights after run().
  void settle_weights();

  // Skips the step after `step` steps, instead of run(). Rows show the lrs that it would have had.
  void skip(int64_t step);

  // Runs forward, backward and the exchange only, and discards the gradients. Random generators and buffers change.
  void warm_up(const TrainBatch& batch) { compute(batch, 0, {.backward_only = true}); }

  // Runs forward and backward of the first `samples` samples on this rank only, and discards the gradients: one that
  // runs out of memory does not leave the others waiting. Random generators and buffers change.
  void forward_backward(const TrainBatch& batch, int64_t samples);

  // Returns the digest (tensor_digest.h) of the loss and the gradients of this batch on this rank alone, which are
  // discarded, and of sums and quotients of weights and gradients as optimizers compute them. Random generators and
  // buffers change.
  uint64_t digest_of(const Batch& batch);

  // Sets the most samples of a rank in a micro-batch; 0: all of its part.
  void set_micro_batch(int64_t samples) { micro_batch_ = samples; }

  LrPolicy& lr() { return lr_; }
  GradScaler& scaler() { return scaler_; }
  const OptimizerShare& share() const { return share_; }
  Ema& ema() { return ema_; }
  const Ema& ema() const { return ema_; }
  const CudaGraphs& graphs() const { return graphs_; }
  void set_scaler_state(const GradScaler::State& state);
  int64_t skipped();  // steps skipped so far, besides the scaler's overflows
  void set_skipped(int64_t steps);

 private:
  // What is computed at once: a micro-batch or a shard.
  struct Part {
    Batch batch;
    double weight = 1;    // of its mean loss in the mean over ranks, or over the shards, if all of it counts
    int64_t samples = 0;  // samples that count; 0 if the batch is borrowed
    int64_t shard = -1;   // its number in the global batch; -1: it is none
    bool first = true, last = true;
  };
  // The gradients after the exchange: unscaled, checked, clipped.
  struct Gradients {
    std::vector<at::Tensor> checked;  // scalars, all finite unless the step is nonfinite
    at::Tensor found_inf;             // float32: not 0 if the step is skipped; undefined: it never is
    at::Tensor skipped;               // bool, with trainer.on_nonfinite skip: the step restores buffers
  };

  std::unique_ptr<GradientReducer> make_reducer() const;
  std::string why_not_capturable();
  StepResults compute(const TrainBatch& batch, int64_t step, const StepMode& mode);
  std::vector<Part> split(const TrainBatch& batch) const;
  std::vector<Part> micro_batches(const TrainBatch& batch) const;
  void forward_and_backward(const std::vector<Part>& parts, int64_t step, const StepMode& mode, CountedMean& counted,
                            MetricSums& sums);
  void begin_part(const Part& part, int64_t step, const StepMode& mode);
  OperatorListener* listener_of(const Part& part, const StepMode& mode);
  at::Tensor forward(const Part& part, OperatorListener* listener, CountedMean& counted, MetricSums& sums);
  at::Tensor backward_alone(const Batch& batch);
  void tell_of_unused();
  std::vector<NamedParameter> leave_others_gradients();
  Gradients finish_gradients(MetricSums& sums, const std::vector<NamedParameter>& shared, bool alone);
  void step_optimizer(const Gradients& gradients);
  void update_weights(const Gradients& gradients);
  std::unique_ptr<SpreadWeights> start_weights(const StepMode& mode);
  void drop_gradients();
  // Returns whether somebody looks at the gradients of the step under way; the same on all ranks.
  bool needs_all_gradients() const { return recorder_ || shows_; }
  bool skips() const { return config_.on_nonfinite == OnNonfinite::kSkip; }
  bool skips_by_norm() const { return skips() && !scaler_.enabled(); }
  void set_lrs(int64_t step);
  std::vector<at::Tensor> gradients() const;

  const Context& context_;
  const TrainerConfig& config_;
  StepTimer& timer_;
  std::shared_ptr<DataParallel> parallel_;  // the model, and its copies with trainer.strategy dp
  LrPolicy lr_;
  OptimizerShare share_;
  bool weights_are_old_ = false;             // those that other ranks step, until settle_weights() or the next step
  std::unique_ptr<SpreadWeights> arriving_;  // during the first forward of a step; null: all weights are there
  std::vector<NamedParameter> parameters_;
  std::vector<at::Tensor> buffers_;
  SharedBuffers shared_;
  std::unique_ptr<GradientReducer> reducer_;
  std::shared_ptr<BatchStatistics> statistics_;  // with sync_batchnorm
  GradScaler scaler_;                            // enabled with fp16
  GradientClip clip_;
  Ema ema_;            // with trainer.ema_decay
  GradientMark mark_;  // enabled if all ranks must see one's nonfinite loss in the gradients
  CudaGraphs graphs_;
  bool looked_for_unused_ = false;
  std::optional<bool> counts_;  // whether the model's steps say how many count, once there was one
  bool shows_ = false;
  std::function<void(const std::vector<NamedParameter>&)> shown_to_;  // may be null
  StepRecorder* recorder_ = nullptr;                                  // of the step under way; null: it is not recorded
  FlopCount* flops_ = nullptr;                                        // of the step under way; null: it is not counted
  std::optional<StepOutcome> last_;                                   // of the previous step, until it is counted
  int64_t skipped_ = 0;
  int64_t micro_batch_ = 0;
};

}  // namespace ddprun
