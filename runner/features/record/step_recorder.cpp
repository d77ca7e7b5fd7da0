// SPDX-License-Identifier: MIT
#include "features/record/step_recorder.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_call.h"
#include "step/held_state.h"
#include "step/train_step.h"
#include "weights/state_guard.h"
#include "weights/tensor_digest.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

namespace ddprun {
namespace {

// An operator whose results are recorded where it ends.
struct Call final : at::ObserverContext {
  OperatorNote note;
};

// A range of a thread's work that others lie in.
template <typename Kind>
struct Range : at::ObserverContext {
  Range() : outer(innermost) { innermost = static_cast<Kind*>(this); }
  ~Range() override { innermost = outer; }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  Kind* outer;
  static thread_local Kind* innermost;
};
template <typename Kind>
thread_local Kind* Range<Kind>::innermost = nullptr;

// A line of the model's source.
struct Line final : Range<Line> {
  explicit Line(std::string of) : text(std::move(of)) {}
  std::string text;
};

// A function of the backward pass, and the operator of the forward pass that it belongs to.
struct BackwardFunction final : Range<BackwardFunction> {
  BackwardFunction(std::string called, OperatorNote forward) : name(std::move(called)), of(std::move(forward)) {}
  std::string name;
  OperatorNote of;
};

// Returns whether a named range is a line of source: "net.py:12". Those of c10d end on another thread.
bool is_line(std::string_view range) {
  const auto colon = range.rfind(':');
  return colon != range.npos && colon + 1 < range.size() &&
         range.find_first_not_of("0123456789", colon + 1) == range.npos;
}

// Return whether nothing defined is in the results of an operator, or in this one.
bool leaves_unwritten(const c10::OperatorName& name) {
  if (name.name.starts_with("aten::empty") || name.name.starts_with("aten::new_empty")) return true;
  const auto found = c10::Dispatcher::singleton().findSchema(name);
  return found && found->hasTag(at::Tag::inplace_view);  // resize_, as_strided_ and the like
}
bool leaves_unwritten(const c10::Argument& result) {
  const auto& name = result.name();
  return name.starts_with("philox_") || name == "rng_state" || name == "unused" ||
         name.find("reserve") != std::string::npos || name == "workspace" || name == "debug_attn_mask";
}

bool is_view(const c10::Argument& result) { return result.alias_info() && !result.alias_info()->isWrite(); }

bool has_numbers(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.numel() > 0 && !tensor.is_quantized() &&
         !tensor.is_meta();
}

void add_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor() && has_numbers(value.toTensor())) tensors.push_back(value.toTensor());
  if (!value.isTensorList()) return;
  for (const at::Tensor& tensor : value.toTensorList()) {
    if (has_numbers(tensor)) tensors.push_back(tensor);
  }
}

std::vector<at::Tensor> results_of(const at::RecordFunction& call) {
  const auto schema = call.operator_schema();
  const auto& outputs = call.outputs();
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto* result = schema && i < schema->returns().size() ? &schema->returns()[i] : nullptr;
    if (!result || (!is_view(*result) && !leaves_unwritten(*result))) add_tensors(outputs[i], tensors);
  }
  return tensors;
}

bool has_fractions(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

TensorNote note_of(const at::Tensor& given) {
  const auto tensor = given.detach().resolve_conj().resolve_neg();
  TensorNote note{.form = log::text(c10::toString(tensor.scalar_type()), tensor.sizes()),
                  .digest = digest_of({tensor})};
  if (!has_fractions(tensor)) return note;
  note.largest = tensor.abs().max().item<double>();
  note.finite = std::isfinite(note.largest);
  if (!note.finite) note.largest = at::nan_to_num(tensor, 0, 0, 0).abs().max().item<double>();
  return note;
}

NamedNote named_note(const std::string& name, const at::Tensor& tensor) {
  if (!has_numbers(tensor)) return {.name = name};
  const auto detached = tensor.detach();
  return {.name = name,
          .tensor = note_of(detached),
          .norm = has_fractions(detached) ? at::linalg_vector_norm(detached.to(at::kDouble)).item<double>() : 0};
}

uint64_t digest_of_sample(const Batch& batch, int64_t row) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : batch.tensors()) {
    if (tensor.defined()) tensors.push_back(tensor.narrow(0, row, 1));
  }
  return digest_of(tensors);
}

std::vector<Batch> parts_of(const TrainBatch& batch) {
  if (batch.shards.empty()) return {batch.made()};
  std::vector<Batch> parts;
  for (const auto& shard : batch.shards) parts.push_back(shard.batch);
  return parts;
}

}  // namespace

StepRecorder::StepRecorder(const Context& context)
    : context_(context), config_(context.experiment.features.of<RecordConfig>()) {}

Look StepRecorder::look(int64_t step) {
  is_recording_ = step >= config_.steps.first && step <= config_.steps.last;
  return is_recording_ ? Look::kSettled : Look::kNone;
}

void StepRecorder::before_step(Loop& loop, const TrainBatch& batch) {
  if (!is_recording_) return;
  loop.step.settle_weights();
  const auto step = loop.state.step + 1;
  record_ = {.step = step};
  losses_.clear();
  names_.clear();
  for (const auto& parameter : context_.model->named_parameters())
    names_[parameter.value().storage().data()] = parameter.key();
  if (step == config_.steps.first) record_.begun = state(loop);
  if (step != config_.steps.last || batch.weight == 0) return;
  try {
    losses_ = losses_of(batch);
  } catch (const std::exception& error) {  // a network that needs several samples, or others' in a collective
    record_.losses_problem = cause_of(error);
  }
}

std::map<int64_t, double> StepRecorder::losses_of(const TrainBatch& batch) const {
  const StateGuard guard(buffers(*context_.model), context_.backend.get());
  const EvalMode mode(*context_.model);
  const torch::NoGradGuard no_gradients;
  const auto autocast = context_.precision.autocast();
  std::map<int64_t, double> losses;
  for (const auto& part : parts_of(batch)) {
    for (int64_t row = 0; row < part.size(); ++row) {
      const auto sample = context_.precision.converted(part_of_batch(part, {row, row + 1}));
      losses[part.index[row].item<int64_t>()] =
          call_step(*context_.model, sample, context_.objective).loss.item<double>();
    }
  }
  return losses;
}

void StepRecorder::begin_part(const Batch& batch, int64_t shard) {
  part_ = {.rank = shard < 0 ? context_.communicator.world().rank : -1,
           .number = shard < 0 ? static_cast<int64_t>(record_.parts.size()) : shard};
  for (int64_t row = 0; row < batch.size(); ++row) {
    SampleNote sample{.number = batch.index[row].item<int64_t>(), .digest = digest_of_sample(batch, row)};
    if (const auto loss = losses_.find(sample.number); loss != losses_.end()) sample.loss = loss->second;
    part_.samples.push_back(sample);
  }
  forward_of_.clear();
  in_backward_ = false;
}

void StepRecorder::begin_backward(const Step& forward) {
  part_.loss = forward.loss.item<double>();
  part_.weight = forward.counted.defined() ? forward.counted.item<double>() : std::ssize(part_.samples);
  in_backward_ = true;
}

void StepRecorder::end_part() { record_.parts.push_back(std::exchange(part_, {})); }

// Only what a function of the backward pass calls belongs to that: not the exchange, whose hooks are called in it, nor
// where gradients are put, which depends on that.
std::unique_ptr<at::ObserverContext> StepRecorder::begun(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  if (call.scope() == at::RecordScope::USER_SCOPE)
    return is_line(name) ? std::make_unique<Line>(std::string(name.substr(name.rfind('/') + 1))) : nullptr;
  if (call.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    if (name.starts_with("autograd::engine") || name.find("AccumulateGrad") != name.npos) return nullptr;
    const auto of = forward_of_.find(call.seqNr());
    return std::make_unique<BackwardFunction>(std::string(name), of == forward_of_.end() ? OperatorNote() : of->second);
  }
  const auto operator_name = call.operator_name();
  if (!operator_name || leaves_unwritten(*operator_name)) return nullptr;
  const auto* function = BackwardFunction::innermost;
  if (in_backward_ && !function) return nullptr;
  auto begun = std::make_unique<Call>();
  auto& note = begun->note;
  note.parameters = parameters_of(call);
  if (function) {
    note.name = std::string(name) + " in " + function->name;
    note.line = function->of.line;
    if (note.parameters.empty()) note.parameters = function->of.parameters;
  } else {
    note.name = std::string(name);
    if (Line::innermost) note.line = Line::innermost->text;
    if (call.seqNr() >= 0) forward_of_[call.seqNr()] = note;
  }
  return begun;
}

void StepRecorder::ended(const at::RecordFunction& call, at::ObserverContext& of_begun) {
  auto* begun = dynamic_cast<Call*>(&of_begun);
  if (!begun) return;
  const torch::NoGradGuard no_gradients;
  const auto results = results_of(call);
  if (results.empty()) return;
  if (is_kept()) {
    for (size_t i = 0; i < results.size(); ++i) kept_[std::to_string(i)] = results[i].detach().clone();
  }
  for (const auto& result : results) begun->note.results.push_back(note_of(result));
  part_.operators.push_back(std::move(begun->note));
}

bool StepRecorder::is_kept() const {
  const auto& kept = config_.kept;
  return kept.number >= 0 && record_.step == config_.steps.last && part_.rank == kept.rank &&
         part_.number == kept.part && std::ssize(part_.operators) == kept.number;
}

std::string StepRecorder::parameters_of(const at::RecordFunction& call) const {
  std::vector<at::Tensor> tensors;
  for (const auto& input : call.inputs()) add_tensors(input, tensors);
  std::string text;
  for (const auto& tensor : tensors) {
    if (!tensor.has_storage()) continue;
    const auto named = names_.find(tensor.storage().data());
    if (named != names_.end() && text.find(named->second) == std::string::npos)
      text += (text.empty() ? "" : ", ") + named->second;
  }
  return text;
}

void StepRecorder::gradients(const std::vector<NamedParameter>& parameters) {
  if (!context_.is_rank_zero()) return;
  for (const auto& parameter : parameters)
    record_.gradients.push_back(named_note(parameter.name, parameter.value.grad()));
}

// Returns what rank 0 notes of weights, its buffers, the optimizer's state and averages. Where ranks share the
// optimizer, each notes its share.
std::vector<NamedNote> StepRecorder::state(const Loop& loop) const {
  std::vector<NamedNote> notes;
  const torch::NoGradGuard no_gradients;
  const auto add = [&notes](const NamedTensors& named) {
    for (size_t i = 0; i < named.names.size(); ++i) notes.push_back(named_note(named.names[i], named.tensors[i]));
  };
  if (context_.is_rank_zero()) {
    add(held_weights(*context_.model));
    for (const auto& buffer : context_.model->named_buffers())
      notes.push_back(named_note(buffer.key(), buffer.value()));
  }
  if (context_.is_rank_zero() || loop.step.share().is_shared()) add(held_state(*context_.optimizer, loop.step.ema()));
  return notes;
}

void StepRecorder::computed(Loop& loop, const TrainBatch& /*batch*/, const StepOutcome* outcome) {
  if (!outcome || !std::exchange(is_recording_, false)) return;
  loop.step.settle_weights();
  const auto rank = context_.communicator.world().rank;
  record_.left = state(loop);
  const auto file = record_file(context_.run_dir, rank);
  if (!file_.is_open()) {
    std::filesystem::create_directories(file.parent_path());
    file_.open(file);
  }
  file_.append_line(to_json(record_).dump());
  if (!kept_.empty()) write_safetensors(kept_tensors_file(context_.run_dir, rank), std::exchange(kept_, {}));
}

std::unique_ptr<Feature> make_record(const Context& context, const TrainPlan& /*plan*/) {
  return context.experiment.features.of<RecordConfig>().steps.last > 0 ? std::make_unique<StepRecorder>(context)
                                                                       : nullptr;
}

}  // namespace ddprun
