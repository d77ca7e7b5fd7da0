// SPDX-License-Identifier: MIT
// Runs the steps of one rank as CUDA graphs (trainer.cuda_graph): the GPU work of a step is captured once for each kind
// of batch and from then on replayed as a whole, without the host's work for each operator.
//
// A kind of batch is captured after kWarmUp ordinary steps: by then LibTorch has chosen its kernels, lasting memory is
// allocated, and c10d's reducer has finished observing. A step that cannot be captured, or whose operators change from
// step to step, never is; the reason is reported once. All ranks capture and replay the same steps, as NCCL requires:
// an objection of one counts for all. With trainer.shards each shard of a step is a graph of its own, since each has
// its own seed. Used from the training thread.
#pragma once

#include "data/loader.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"
#include "step/context.h"
#include "step/operator_log.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// Results of a step, which the host reads later.
struct StepResults {
  MetricSums sums;      // after a replay, their scalars are those of another step
  at::Tensor numbers;   // [n] float64 on the device, with the sums' scalars at its end; the next step may overwrite it
  int64_t checked = 0;  // so many of the first numbers are finite if the step is
};

// Options for computing a step.
struct StepMode {
  bool alone = false;          // without the other ranks
  bool backward_only = false;  // up to the gradients, which are discarded
  OperatorLog* log = nullptr;  // records the step's operators; may be null
  bool captured = false;       // as a graph, to be run later and more than once
  bool* applied = nullptr;     // set before the weights change; may be null
  // Called between the shards of a step that is captured, and then they are not seeded; null: they are.
  std::function<void()> next_shard = nullptr;
};

class CudaGraphs {
 public:
  static constexpr int64_t kWarmUp = 12;  // c10d measures its first 10 steps
  static constexpr int64_t kMostGraphs = 4;

  // Computes the whole step except what the host does before it and with its results afterwards.
  using Compute = std::function<StepResults(const TrainBatch& batch, const StepMode& mode)>;

  // Both outlive it. Throws UserError if graphs are required (trainer.cuda_graph) and there is no GPU.
  CudaGraphs(const Context& context, StepTimer& timer);

  // Returns whether steps are captured or replayed, now or later.
  bool in_use() const { return context_.backend && wanted() != CudaGraphMode::kOff && reason_.empty(); }

  // Runs one step. A watched one is computed operator by operator; `watched` is equal on all ranks.
  StepResults run(const TrainBatch& batch, bool watched, const Compute& compute);

  // Stops capturing steps and frees the graphs' memory; called on all ranks alike. Throws UserError if graphs are
  // required.
  void refuse(const std::string& reason);

  // Drops all graphs, to capture them anew: tensors that steps work on have moved.
  void forget() {
    kinds_.clear();
    pool_bytes_ = 0;
  }

  // Returns "replayed", "not yet", or why not, for the run's summary.
  std::string state() const;
  int64_t replayed() const { return replayed_; }  // replayed steps

 private:
  struct Form {  // the form of a tensor
    std::vector<int64_t> sizes, strides;
    at::ScalarType type = at::kFloat;
    bool operator==(const Form&) const = default;
  };
  using Forms = std::vector<std::pair<std::string, Form>>;  // of a batch's tensors, by their names
  struct Kind {
    int64_t global_samples = 0;
    Forms forms;
    int64_t seen = 0;     // ordinary steps so far
    std::string problem;  // on this rank; empty: none
    OperatorLog log;      // of the last ordinary step
    StepResults pattern;  // the host's part of the results: metrics' names and counts
    TrainBatch batch;     // at the addresses that the graph reads
    std::unique_ptr<DeviceGraph> graph;
  };

  CudaGraphMode wanted() const { return context_.experiment.trainer.cuda_graph; }
  static Forms forms_of(const TrainBatch& batch);
  static std::string difference(const Forms& before, const Forms& now);
  Kind* kind_of(const TrainBatch& batch);
  bool any() const;  // whether there is a graph
  StepResults ordinary(const TrainBatch& batch, const Compute& compute, OperatorLog* log = nullptr);
  StepResults warm_up(Kind& kind, const TrainBatch& batch, const Compute& compute);
  std::string problem_of(const Kind& kind, const OperatorLog& log, const StepResults& results) const;
  void capture(Kind& kind, const TrainBatch& batch, const Compute& compute);
  std::string capture_alike(Kind& kind, const Compute& compute);
  std::string memory_problem(int64_t reserved_before);
  GraphWork work(Kind& kind, const Compute& compute, bool alone) const;
  StepResults replay(Kind& kind, const TrainBatch& batch);
  std::string agreed(const std::string& mine);
  void report(const std::string& text) const;

  const Context& context_;
  StepTimer& timer_;
  std::vector<at::Tensor> buffers_;  // the model's
  std::deque<Kind> kinds_;           // a deque, so that they stay in place
  std::string reason_;               // why there are no graphs; empty if there are or will be
  int64_t pool_bytes_ = 0;           // memory shared by the graphs, which run one after the other
  int64_t replayed_ = 0;
};

}  // namespace ddprun
