// SPDX-License-Identifier: MIT
// The steps of one rank as graphs of its GPU (trainer.cuda_graph): what a step gives to the GPU is captured once for
// each kind of batch and from then on replayed as a whole, without the host's work for each operator.
//
// A kind of batch is captured once it was seen in kWarmUp ordinary steps: then LibTorch has chosen its kernels, memory
// that lasts is there, and c10d's reducer is done with looking on. A step that cannot be captured, or asks for
// something else each time, never is; why, is told once. All ranks capture and replay the same steps, since NCCL wants
// it so: what one of them says against it counts for all. Used from the training thread.
#pragma once

#include "comm/communicator.h"
#include "comm/device_backend.h"
#include "data/loader.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"
#include "train/operator_log.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// What the device computes in a step that the host asks for later.
struct StepResults {
  MetricSums sums;
  at::Tensor checked;  // [n] float32 on the device, not all finite where the step is. The next step may write there
};

// How a step is computed.
struct StepMode {
  bool alone = false;          // without the other ranks
  bool backward_only = false;  // up to the gradients, which are thrown away
  OperatorLog* log = nullptr;  // told what the step asks of the device; may be null
  bool* applied = nullptr;     // set before the weights change; may be null
};

class CudaGraphs {
 public:
  static constexpr int64_t kWarmUp = 12;  // c10d takes times in its first 10 steps
  static constexpr int64_t kMostGraphs = 4;

  // The whole step but what the host does before it, and after it with its results.
  using Compute = std::function<StepResults(const TrainBatch& batch, const StepMode& mode)>;

  struct Parts {
    CudaGraphMode wanted;    // trainer.cuda_graph
    DeviceBackend* backend;  // null on the CPU
    Communicator& communicator;
    c10::Device device;
    StepTimer& timer;
    std::vector<at::Tensor> buffers;  // the model's
  };

  // Throws UserError where graphs are wanted and there is no GPU.
  explicit CudaGraphs(Parts parts);

  // Whether steps are captured or replayed, now or later.
  bool in_use() const { return parts_.backend && parts_.wanted != CudaGraphMode::kOff && reason_.empty(); }

  // One step. A watched one is computed operator by operator; the same on all ranks.
  StepResults run(const TrainBatch& batch, bool watched, const Compute& compute);

  // Steps are not captured from here on, and graphs give their memory back; the same on all ranks. Throws UserError
  // where graphs are required.
  void refuse(const std::string& reason);

  // Tensors that steps work on have gone to another place. Graphs are captured anew.
  void forget() {
    kinds_.clear();
    pool_bytes_ = 0;
  }

  // "replayed", "not yet", or why not: for the run's summary.
  std::string state() const;
  int64_t replayed() const { return replayed_; }  // steps

 private:
  struct Form {  // of a tensor
    std::vector<int64_t> sizes, strides;
    at::ScalarType type = at::kFloat;
    bool operator==(const Form&) const = default;
  };
  using Forms = std::vector<std::pair<std::string, Form>>;  // of a batch's tensors, by their names
  struct Kind {
    int64_t global_samples = 0;
    Forms forms;
    int64_t seen = 0;     // ordinary steps
    std::string problem;  // on this rank; empty: none
    OperatorLog log;      // of the last ordinary step
    StepResults pattern;  // what the host knows of the results: metrics' names and counts
    TrainBatch batch;     // in the place where the graph reads it
    std::unique_ptr<DeviceGraph> graph;
  };

  static Forms forms_of(const Batch& batch);
  static std::string difference(const Forms& before, const Forms& now);
  Kind* kind_of(const TrainBatch& batch);
  bool any() const;  // graph is there
  StepResults ordinary(const TrainBatch& batch, const Compute& compute, OperatorLog* log = nullptr);
  StepResults warm_up(Kind& kind, const TrainBatch& batch, const Compute& compute);
  std::string problem_of(const Kind& kind, const OperatorLog& log, const StepResults& results) const;
  void capture(Kind& kind, const TrainBatch& batch, const Compute& compute);
  std::string capture_alike(Kind& kind, const Compute& compute);
  std::string memory_problem(int64_t reserved_before);
  std::function<std::vector<at::Tensor>()> work(Kind& kind, const Compute& compute, bool alone) const;
  StepResults replay(Kind& kind, const TrainBatch& batch);
  std::string agreed(const std::string& mine);
  void tell(const std::string& text) const;

  Parts parts_;
  std::deque<Kind> kinds_;  // which stay where they are
  std::string reason_;      // why there are no graphs; empty: there are, or will be
  int64_t pool_bytes_ = 0;  // what the graphs keep, one after the other working in it
  int64_t replayed_ = 0;
};

}  // namespace ddprun
