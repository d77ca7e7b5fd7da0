// SPDX-License-Identifier: MIT
#include "step/cuda_graphs.h"

#include "base/communication_error.h"
#include "base/log.h"
#include "comm/replicate.h"
#include "sharing/out_of_memory.h"
#include "weights/state_guard.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ddprun {
namespace {

constexpr size_t kMostKinds = 32;  // that are tracked; further ones are too rare

at::Tensor host_numbers() { return at::globalContext().defaultGenerator(at::kCPU).get_state(); }

// Detects whether the step draws numbers from the host's generator, or its last shard, which seeds it; it has done so
// once by then.
class HostDraws {
 public:
  explicit HostDraws(c10::Device device) : before_(device.is_cuda() ? host_numbers() : at::Tensor()) {}

  bool seen() const {
    if (!before_.defined()) return false;
    const auto now = host_numbers();
    return !at::equal(before_, now) && !at::equal(as_seeded(), now);
  }

 private:
  static at::Tensor as_seeded() {
    const auto seed = at::globalContext().defaultGenerator(at::kCPU).current_seed();
    return at::make_generator<at::CPUGeneratorImpl>(seed).get_state();
  }

  at::Tensor before_;
};

// Returns what `call` throws, in one line; empty if nothing.
template <class Call>
std::string failure_of(Call&& call) {
  try {
    call();
    return "";
  } catch (const std::exception& error) {
    const auto text = cause_of(error);
    return text.empty() ? "it failed without a message" : text;
  }
}

}  // namespace

CudaGraphs::CudaGraphs(const Context& context, StepTimer& timer)
    : context_(context), timer_(timer), buffers_(buffers(*context.model)) {
  if (wanted() == CudaGraphMode::kOn && !context_.backend)
    throw UserError("trainer.cuda_graph: on needs a GPU, and this run has none; set it to auto");
}

StepResults CudaGraphs::run(const TrainBatch& batch, bool watched, const Compute& compute) {
  auto* kind = watched ? nullptr : kind_of(batch);
  if (!kind) return ordinary(batch, compute);
  if (!kind->graph && kind->seen == kWarmUp) capture(*kind, batch, compute);
  if (!in_use() || (!kind->graph && kind->seen >= kWarmUp)) return ordinary(batch, compute);
  return kind->graph ? replay(*kind, batch) : warm_up(*kind, batch, compute);
}

// Runs an ordinary step. If graphs, which keep the memory of their step, leave too little for it, they are dropped and
// the step is repeated: only with a single rank, since others would be in the middle of theirs.
StepResults CudaGraphs::ordinary(const TrainBatch& batch, const Compute& compute, OperatorLog* log) {
  bool applied = false;
  const auto once = [&] { return compute(batch, {.log = log, .applied = &applied}); };
  if (!any() || context_.communicator.is_distributed()) return once();
  try {
    StateGuard before(buffers_, context_.backend.get());
    auto results = once();
    before.let_go();
    return results;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error) || applied) throw;
  }
  refuse("captured steps leave too little memory for an ordinary one");
  return once();
}

CudaGraphs::Forms CudaGraphs::forms_of(const TrainBatch& batch) {
  Forms forms;
  for (const auto& [name, tensor] : batch.tensors()) {
    auto& form = forms.emplace_back(name, Form()).second;
    if (!tensor.defined()) continue;
    form = {.sizes = tensor.sizes().vec(), .strides = tensor.strides().vec(), .type = tensor.scalar_type()};
  }
  return forms;
}

// Returns "[5, 8] after [5, 9]", with the name if it is not the input that differs.
std::string CudaGraphs::difference(const Forms& before, const Forms& now) {
  const auto [one, other] = std::ranges::mismatch(before, now);
  if (one == before.end() || other == now.end()) return "one has more tensors than the other";
  const auto sizes = [](const Form& form) { return c10::str(at::IntArrayRef(form.sizes)); };
  return (other->first == "input" ? "" : other->first + " ") + sizes(other->second) + " after " + sizes(one->second);
}

// Returns null if there are too many kinds. All ranks must mean the same kind, which the global number of samples says
// them; it is up to the dataset that each rank's part then has one form.
CudaGraphs::Kind* CudaGraphs::kind_of(const TrainBatch& batch) {
  auto forms = forms_of(batch);
  for (auto& kind : kinds_) {
    if (kind.global_samples != batch.global_samples) continue;
    if (kind.forms == forms) return &kind;
    if (!context_.communicator.is_distributed()) continue;
    const auto shapes = difference(kind.forms, forms);
    if (kind.graph) {
      throw UserError("trainer.cuda_graph: batches of one size have different shapes, " + shapes +
                      ", which several workers cannot replay; set trainer.cuda_graph=off");
    }
    kind.problem = "batches of one size have different shapes, " + shapes;
    return &kind;
  }
  if (kinds_.size() == kMostKinds) return nullptr;
  kinds_.push_back(
      {.global_samples = batch.global_samples, .forms = std::move(forms), .log = OperatorLog(context_.device)});
  return &kinds_.back();
}

// Runs an ordinary step of the warm-up. The last two are compared.
StepResults CudaGraphs::warm_up(Kind& kind, const TrainBatch& batch, const Compute& compute) {
  constexpr int64_t kCompared = 2;
  if (++kind.seen <= kWarmUp - kCompared) return ordinary(batch, compute);
  OperatorLog log(context_.device);
  const HostDraws draws(context_.device);
  auto results = ordinary(batch, compute, &log);
  if (draws.seen()) kind.problem = "a step draws random numbers on the host; draw them on the device in the model";
  if (kind.problem.empty()) kind.problem = problem_of(kind, log, results);
  kind.log = std::move(log);
  kind.pattern = results;
  return results;
}

std::string CudaGraphs::problem_of(const Kind& kind, const OperatorLog& log, const StepResults& results) const {
  if (!log.wait().empty()) return "the host waits for the GPU in each step (" + log.wait() + ")";
  if (const auto metric = results.sums.made_beside(context_.device); !metric.empty())
    return "the metric " + metric + " is computed on the host";
  if (kind.log.empty()) return "";
  if (const auto change = kind.log.difference(log); !change.empty())
    return "a step's operators change from step to step: " + change;
  if (!kind.pattern.sums.alike(results.sums)) return "a step's metric counts change from step to step";
  return "";
}

void CudaGraphs::capture(Kind& kind, const TrainBatch& batch, const Compute& compute) {
  const auto graphs = std::ranges::count_if(kinds_, [](const Kind& other) { return other.graph != nullptr; });
  if (graphs == kMostGraphs) return;
  timer_.begin(StepPhase::kOther);
  kind.batch = batch;
  kind.batch.batch.index.reset();
  kind.batch.replace_tensors([](const at::Tensor& tensor) { return at::empty_like(tensor); });
  if (batch.images)
    kind.batch.request = at::empty(batch.request.sizes(), batch.request.options().device(context_.device));
  const auto reason = capture_alike(kind, compute);
  if (!reason.empty()) return refuse(reason);
  if (graphs == 0) report("steps are replayed from CUDA graphs from here on");
}

// Captures on all ranks or on none. If one fails while it captures the exchange, c10d's reducer is left in the middle
// of it, so each first tries everything else.
std::string CudaGraphs::capture_alike(Kind& kind, const Compute& compute) {
  auto reason = agreed(kind.problem);
  context_.backend->release_memory();
  const auto reserved = context_.backend->memory().reserved;
  std::unique_ptr<DeviceGraph> trial;
  if (reason.empty() && context_.communicator.is_distributed()) {
    reason = agreed(failure_of([&] { trial = context_.backend->capture(work(kind, compute, /*alone=*/true)); }));
  }
  if (!reason.empty()) return reason;
  reason = agreed(failure_of([&] { kind.graph = context_.backend->capture(work(kind, compute, /*alone=*/false)); }));
  if (!reason.empty() && context_.communicator.is_distributed()) {
    throw UserError("trainer.cuda_graph: the exchange of gradients cannot be captured: " + reason +
                    ". Set trainer.cuda_graph=off");
  }
  trial.reset();
  return reason.empty() ? agreed(memory_problem(reserved)) : reason;
}

// Returns a problem if memory is too short: graphs keep what one of their steps needs, and a ragged batch or a watched
// step takes as much again.
std::string CudaGraphs::memory_problem(int64_t reserved_before) {
  context_.backend->release_memory();
  const auto memory = context_.backend->memory();
  pool_bytes_ += std::max<int64_t>(0, memory.reserved - reserved_before);
  if (memory.free >= pool_bytes_) return "";
  constexpr int64_t kMiB = 1 << 20;
  return log::text("a captured step keeps ", pool_bytes_ / kMiB, " MiB, and the ", memory.free / kMiB,
                   " MiB left are too few for an ordinary one; use a smaller trainer.micro_batch");
}

bool CudaGraphs::any() const {
  return std::ranges::any_of(kinds_, [](const Kind& kind) { return kind.graph != nullptr; });
}

GraphWork CudaGraphs::work(Kind& kind, const Compute& compute, bool alone) const {
  return [&kind, compute, alone, &timer = timer_, device = context_.device](const std::function<void()>& next_part) {
    const StepTimer::Muted muted(timer);
    OperatorLog log(device);
    const auto results = compute(kind.batch, {.alone = alone, .log = &log, .captured = true, .next_shard = next_part});
    const auto change = alone ? "" : kind.log.difference(log);
    if (!change.empty()) throw std::runtime_error("a step's operators change from step to step: " + change);
    return std::vector{results.numbers};
  };
}

StepResults CudaGraphs::replay(Kind& kind, const TrainBatch& batch) {
  timer_.begin(StepPhase::kGraph);
  const auto places = kind.batch.tensors(), tensors = batch.tensors();  // of the same forms
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].second.defined()) places[i].second.copy_(tensors[i].second, /*non_blocking=*/true);
  }
  kind.graph->replay([&](int64_t part) {
    if (!batch.shards.empty())
      seed_shard(context_.experiment.seed, batch.step, batch.shards[static_cast<size_t>(part)].number,
                 context_.backend.get());
  });
  ++replayed_;
  return {.sums = kind.pattern.sums, .numbers = kind.graph->results().front(), .checked = kind.pattern.checked};
}

// Returns the first rank's problem, on all of them; empty if none has one.
std::string CudaGraphs::agreed(const std::string& mine) {
  const auto texts = context_.communicator.gather_texts(mine);
  const auto first = std::ranges::find_if(texts, [](const std::string& text) { return !text.empty(); });
  return first == texts.end() ? "" : *first;
}

void CudaGraphs::refuse(const std::string& reason) {
  if (wanted() == CudaGraphMode::kOn) {
    throw UserError("trainer.cuda_graph: on, but a step cannot be captured: " + reason +
                    ". Set it to auto or off to train without");
  }
  reason_ = reason;
  for (auto& kind : kinds_) {  // one of them may be in use: it is emptied, not erased
    kind.graph.reset();
    kind.batch = {};
  }
  context_.backend->release_memory();
  report("steps are not replayed from CUDA graphs: " + reason);
}

std::string CudaGraphs::state() const {
  if (!context_.backend) return "no GPU";
  if (wanted() == CudaGraphMode::kOff) return "off";
  if (!reason_.empty()) return reason_;
  return replayed_ > 0 ? "replayed" : "not yet";
}

void CudaGraphs::report(const std::string& text) const {
  if (context_.is_rank_zero()) log::info("trainer.cuda_graph: " + text);
}

}  // namespace ddprun
