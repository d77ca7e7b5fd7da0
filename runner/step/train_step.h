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
#include "metrics/step_timer.h"
#include "sharing/optimizer_share.h"
#include "step/context.h"
#include "step/counted_mean.h"
#include "step/cuda_graphs.h"
#include "step/ema.h"
#include "step/grad_scaler.h"
#include "step/lr_policy.h"
#include "step/step_outcome.h"
#include "step/step_parts.h"
#include "step/step_watcher.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class TrainStep {
 public:
  // The context outlives it. `trains` returns whether a parameter trains in some step: of others nothing is kept for
  // the optimizer. Collective with trainer.shard_optimizer.
  TrainStep(const Context& context, Schedule schedule, const Trains& trains);
  TrainStep(const TrainStep&) = delete;  // its parts refer to each other
  TrainStep& operator=(const TrainStep&) = delete;

  // Trains, from the next step on, the parameters that require gradients now: others than before.
  void take_parameters();

  // Runs the step after `step` steps. A nonfinite one changes, with trainer.on_nonfinite skip, neither weights,
  // optimizer, averages and buffers nor the position in the schedule. With `by_operators`, the same on all ranks, it is
  // computed operator by operator, not from a graph. `watchers` look into it.
  StepOutcome run(const TrainBatch& batch, int64_t step, bool by_operators = false,
                  const std::vector<StepWatcher*>& watchers = {});

  // Gets the weights that other ranks have stepped (trainer.shard_optimizer), which the next run() would do.
  // Collective; to be called before anybody reads weights after run().
  void settle_weights();

  // Skips the step after `step` steps, instead of run(). Rows show the lrs that it would have had.
  void skip(int64_t step);

  // Runs forward, backward and the exchange only, and discards the gradients. Random generators and buffers change.
  void warm_up(const TrainBatch& batch);
  bool is_warm() const { return is_warm_; }  // whether the reducer of the parameters that train now has made a step

  // Runs forward and backward of this batch, or of the first samples of one, on this rank only: one that runs out of
  // memory does not leave the others waiting. Shows loss and gradients, and discards them. Random generators and
  // buffers change.
  using Shown = std::function<void(const at::Tensor& loss, const std::vector<NamedParameter>& parameters)>;
  void compute_alone(const Batch& batch, const Shown& shown = {});
  void compute_alone(const TrainBatch& batch, int64_t samples) {
    compute_alone(part_of_batch(batch.made(), {0, samples}));
  }

  // The most samples of a rank in a micro-batch; 0: all of its part.
  int64_t micro_batch() const { return micro_batch_; }
  void set_micro_batch(int64_t samples) { micro_batch_ = samples; }

  StepTimer& timer() { return timer_; }
  LrPolicy& lr() { return lr_; }
  GradScaler& scaler() { return scaler_; }
  const OptimizerShare& share() const { return share_; }
  Ema& ema() { return ema_; }
  const Ema& ema() const { return ema_; }
  const CudaGraphs& graphs() const { return graphs_; }
  int64_t skipped();  // steps skipped so far, besides the scaler's overflows
  void restore(const Schedule::State& schedule, const GradScaler::State& scaler, int64_t skipped);

 private:
  // The gradients after the exchange: unscaled, checked, clipped.
  struct Gradients {
    std::vector<at::Tensor> checked;  // scalars, all finite unless the step is nonfinite
    at::Tensor found_inf;             // float32: not 0 if the step is skipped; undefined: it never is
    at::Tensor skipped;               // bool, with trainer.on_nonfinite skip: the step restores buffers
  };

  std::unique_ptr<GradientReducer> make_reducer() const;
  std::string why_not_capturable();
  StepResults compute(const TrainBatch& batch, int64_t step, const StepMode& mode);
  void forward_and_backward(const std::vector<BatchPart>& parts, int64_t step, const StepMode& mode,
                            CountedMean& counted, MetricSums& sums);
  void begin_part(const BatchPart& part, int64_t step, const StepMode& mode);
  OperatorListener* listener_of(const BatchPart& part, const StepMode& mode) const;
  at::Tensor forward(const BatchPart& part, OperatorListener* listener, CountedMean& counted, MetricSums& sums);
  void warn_of_unused();
  std::vector<NamedParameter> leave_others_gradients();
  Gradients finish_gradients(MetricSums& sums, const std::vector<NamedParameter>& shared, bool alone);
  void step_optimizer(const Gradients& gradients);
  void update_weights(const Gradients& gradients);
  std::unique_ptr<SpreadWeights> start_weights(const StepMode& mode);
  void drop_gradients();
  // Returns whether somebody looks at the gradients of the step under way; the same on all ranks.
  bool needs_all_gradients() const;
  template <class Event, class... Arguments>
  void call_watchers(Event event, const Arguments&... arguments) const {
    for (auto* watcher : watchers_) (watcher->*event)(arguments...);
  }
  bool skips() const { return config_.on_nonfinite == OnNonfinite::kSkip; }
  bool skips_by_norm() const { return skips() && !scaler_.enabled(); }
  void set_lrs(int64_t step);
  std::vector<at::Tensor> gradients() const;

  const Context& context_;
  const TrainerConfig& config_;
  StepTimer timer_;
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
  bool is_warm_ = false, looked_for_unused_ = false;
  std::optional<bool> counts_;          // whether the model's steps say how many count, once there was one
  std::vector<StepWatcher*> watchers_;  // of the step under way
  std::optional<StepOutcome> last_;     // of the previous step, until it is counted
  int64_t skipped_ = 0;
  int64_t micro_batch_ = 0;
};

}  // namespace ddprun
