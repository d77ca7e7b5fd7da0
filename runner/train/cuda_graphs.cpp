// SPDX-License-Identifier: MIT
#include "train/cuda_graphs.h"

#include "base/communication_error.h"
#include "base/log.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ddprun {
namespace {

constexpr size_t kMostKinds = 32;  // that are watched; further ones come too seldom

at::Tensor host_numbers() { return at::globalContext().defaultGenerator(at::kCPU).get_state(); }

// Whether the step draws numbers from the host's generator, which it has done once then.
class HostDraws {
 public:
  explicit HostDraws(c10::Device device) : before_(device.is_cuda() ? host_numbers() : at::Tensor()) {}
  bool seen() const { return before_.defined() && !at::equal(before_, host_numbers()); }

 private:
  at::Tensor before_;
};

// What `call` throws, in one line; empty: nothing.
template <class Call>
std::string failure_of(Call&& call) {
  try {
    call();
    return "";
  } catch (const std::exception& error) {
    const auto text = cause_of(error);
    return text.empty() ? "it failed without a word" : text;
  }
}

std::vector<at::Tensor> tensors_of(const StepResults& results, c10::Device device) {
  return {results.checked, results.sums.packed(device)};
}

}  // namespace

StepResults CudaGraphs::run(const TrainBatch& item, const Compute& compute) {
  auto* kind = kind_of(item);
  if (!kind) return compute(item, {});
  if (!kind->graph && kind->seen == kWarmUp) record(*kind, item, compute);
  if (refused() || (!kind->graph && kind->seen >= kWarmUp)) return compute(item, {});
  return kind->graph ? replay(*kind, item) : warm_up(*kind, item, compute);
}

CudaGraphs::Form CudaGraphs::form_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {.sizes = tensor.sizes().vec(), .strides = tensor.strides().vec(), .type = tensor.scalar_type()};
}

// Null: one of too many. Several ranks must mean the same kind, which the number of samples of them all tells them;
// that their own parts then have one form each is up to the dataset.
CudaGraphs::Kind* CudaGraphs::kind_of(const TrainBatch& item) {
  const auto input = form_of(item.batch.input), target = form_of(item.batch.target);
  for (auto& kind : kinds_) {
    if (kind.global_samples != item.global_samples) continue;
    if (kind.input == input && kind.target == target) return &kind;
    if (parts_.communicator.alone()) continue;
    const auto shapes =
        log::text(c10::str(item.batch.input.sizes()), " after ", c10::str(at::IntArrayRef(kind.input.sizes)));
    if (kind.graph) {
      throw UserError("trainer.cuda_graph: batches of one size have different shapes, " + shapes +
                      ", which several workers cannot replay; set trainer.cuda_graph=off");
    }
    kind.problem = "batches of one size have different shapes, " + shapes;
    return &kind;
  }
  if (kinds_.size() == kMostKinds) return nullptr;
  kinds_.push_back(
      {.global_samples = item.global_samples, .input = input, .target = target, .log = OperatorLog(parts_.device)});
  return &kinds_.back();
}

// An ordinary step. The last two are compared.
StepResults CudaGraphs::warm_up(Kind& kind, const TrainBatch& item, const Compute& compute) const {
  constexpr int64_t kCompared = 2;
  if (++kind.seen <= kWarmUp - kCompared) return compute(item, {});
  OperatorLog log(parts_.device);
  const HostDraws draws(parts_.device);
  auto results = compute(item, {.log = &log});
  if (draws.seen()) kind.problem = "a step draws random numbers on the host; give the model's draws the device";
  if (kind.problem.empty()) kind.problem = problem_of(kind, log, results);
  kind.log = std::move(log);
  kind.pattern = results;
  return results;
}

std::string CudaGraphs::problem_of(const Kind& kind, const OperatorLog& log, const StepResults& results) const {
  if (!log.wait().empty()) return "the host waits for the GPU in each step (" + log.wait() + ")";
  if (const auto metric = results.sums.made_beside(parts_.device); !metric.empty())
    return "the metric " + metric + " is made on the host";
  if (kind.log.empty()) return "";
  if (const auto change = kind.log.difference(log); !change.empty())
    return "a step asks for something else each time: " + change;
  if (!kind.pattern.sums.alike(results.sums)) return "a step's metrics count something else each time";
  return "";
}

void CudaGraphs::record(Kind& kind, const TrainBatch& item, const Compute& compute) {
  const auto graphs = std::ranges::count_if(kinds_, [](const Kind& other) { return other.graph != nullptr; });
  if (graphs == kMostGraphs) return;
  if (parts_.clock) parts_.clock->begin(StepPhase::kOther);
  const auto own_place = [](const at::Tensor& tensor) { return tensor.defined() ? at::empty_like(tensor) : tensor; };
  kind.item = item;
  kind.item.batch = {.input = own_place(item.batch.input), .target = own_place(item.batch.target)};
  const auto reason = record_alike(kind, compute);
  if (!reason.empty()) return refuse(reason);
  if (graphs == 0) tell("steps are replayed from CUDA graphs from here on");
}

// All ranks, or none. Where one fails while it records the exchange, c10d's reducer is left in the middle of it: so
// each tries all but that first.
std::string CudaGraphs::record_alike(Kind& kind, const Compute& compute) {
  auto reason = agreed(kind.problem);
  parts_.backend.release_memory();
  const auto reserved = parts_.backend.memory().reserved;
  std::unique_ptr<DeviceGraph> trial;
  if (reason.empty() && !parts_.communicator.alone()) {
    reason = agreed(failure_of([&] { trial = parts_.backend.record(work(kind, compute, /*alone=*/true)); }));
  }
  if (!reason.empty()) return reason;
  reason = agreed(failure_of([&] { kind.graph = parts_.backend.record(work(kind, compute, /*alone=*/false)); }));
  if (!reason.empty() && !parts_.communicator.alone()) {
    throw UserError("trainer.cuda_graph: the exchange of gradients cannot be recorded: " + reason +
                    ". Set trainer.cuda_graph=off");
  }
  trial.reset();
  return reason.empty() ? agreed(memory_problem(reserved)) : reason;
}

// Graphs keep what one of their steps needs. A ragged batch, or a step that is watched, takes as much again.
std::string CudaGraphs::memory_problem(int64_t reserved_before) {
  parts_.backend.release_memory();
  const auto memory = parts_.backend.memory();
  pool_bytes_ += std::max<int64_t>(0, memory.reserved - reserved_before);
  if (memory.free >= pool_bytes_) return "";
  constexpr int64_t kMiB = 1 << 20;
  return log::text("a recorded step keeps ", pool_bytes_ / kMiB, " MiB, and the ", memory.free / kMiB,
                   " MiB beside it are too few for an ordinary one; a smaller trainer.micro_batch has room for both");
}

bool CudaGraphs::any() const {
  return std::ranges::any_of(kinds_, [](const Kind& kind) { return kind.graph != nullptr; });
}

std::function<std::vector<at::Tensor>()> CudaGraphs::work(Kind& kind, const Compute& compute, bool alone) const {
  return [&kind, compute, alone, device = parts_.device] {
    OperatorLog log(device);
    const auto results = compute(kind.item, {.recorded = true, .alone = alone, .log = &log});
    const auto change = alone ? "" : kind.log.difference(log);
    if (!change.empty()) throw std::runtime_error("a step asks for something else each time: " + change);
    return tensors_of(results, device);
  };
}

StepResults CudaGraphs::replay(Kind& kind, const TrainBatch& item) {
  if (parts_.clock) parts_.clock->begin(StepPhase::kGraph);
  auto& place = kind.item.batch;
  place.input.copy_(item.batch.input, /*non_blocking=*/true);
  if (place.target.defined()) place.target.copy_(item.batch.target, /*non_blocking=*/true);
  kind.graph->replay();
  ++replayed_;
  const auto& results = kind.graph->results();
  return {.sums = kind.pattern.sums.with(results[1], parts_.device), .checked = results[0]};
}

// The first rank's problem, on all of them; empty: nobody has one.
std::string CudaGraphs::agreed(const std::string& mine) {
  const auto texts = parts_.communicator.gather_texts(mine);
  const auto first = std::ranges::find_if(texts, [](const std::string& text) { return !text.empty(); });
  return first == texts.end() ? "" : *first;
}

void CudaGraphs::refuse(const std::string& reason) {
  if (parts_.required) {
    throw UserError("trainer.cuda_graph: on, but a step cannot be recorded: " + reason +
                    ". Set it to auto or off to train without");
  }
  reason_ = reason;
  for (auto& kind : kinds_) {  // one of them may be under way
    kind.graph.reset();
    kind.item = {};
  }
  parts_.backend.release_memory();
  tell("steps are not replayed from CUDA graphs: " + reason);
}

std::string CudaGraphs::state() const {
  if (refused()) return reason_;
  return replayed_ > 0 ? "replayed" : "not yet";
}

void CudaGraphs::tell(const std::string& text) const {
  if (parts_.communicator.world().rank == 0) log::info("trainer.cuda_graph: " + text);
}

}  // namespace ddprun
