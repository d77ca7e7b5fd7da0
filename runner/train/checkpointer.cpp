// SPDX-License-Identifier: MIT
#include "train/checkpointer.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "plugin_host/plugin_call.h"
#include "weights/checkpoint_exchange.h"
#include "weights/model_weights.h"
#include "weights/state_guard.h"
#include "weights/whole_weights.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

// Gives tied weights their average under each of their names, as a checkpoint's weights have them: who loads one
// after the other ends with the average, whatever their order.
TensorDict under_each_name(TensorDict averages, const Model& model) {
  std::map<const c10::TensorImpl*, at::Tensor> averaged;
  for (const auto& weight : state_tensors(model)) {
    const auto found = averages.find(weight.name);
    if (found != averages.end()) averaged.emplace(weight.value.unsafeGetTensorImpl(), found->second);
  }
  for (const auto& weight : state_tensors(model)) {
    const auto found = averaged.find(weight.value.unsafeGetTensorImpl());
    if (found != averaged.end()) averages.emplace(weight.name, found->second);
  }
  return averages;
}

BaseWeights base_of(const Context& context, const Features& features) {
  if (!context.experiment.checkpoint.only_trainable || !context.is_rank_zero()) return {};
  return {*context.model, features.never_trained(*context.model), context.first_weights};
}

}  // namespace

Checkpointer::Checkpointer(const Context& context, TrainStep& step, const Features& features,
                           std::function<void()> alive)
    : context_(context), step_(step), features_(features), base_(base_of(context, features)), alive_(std::move(alive)) {
  if (!step_.share().is_shared()) {
    writes_ = context_.is_rank_zero();
    return;
  }
  writes_ = context_.is_rank_zero() || context_.writes_to_run_dir;
  const auto writers = context_.communicator.gather_texts(writes_ ? "writes" : "sends");
  all_write_ = std::ranges::count(writers, "writes") == std::ssize(writers);
}

void Checkpointer::save(const TrainState& state, bool best) {
  const auto rows_written = context_.loggers.start_flush();
  finish();  // the previous save: there is one copy in memory
  auto checkpoint = live(state);
  if (context_.experiment.checkpoint.async && writes_) checkpoint = snapshot_.take(checkpoint);
  if (step_.share().is_shared()) share(checkpoint);
  checkpoint.average = under_each_name(std::move(checkpoint.average), *context_.model);
  if (checkpoint.is_shared) {
    checkpoint.optimizer_elsewhere = forms_elsewhere(checkpoint.optimizer, context_.communicator);
    checkpoint.average_elsewhere = forms_elsewhere(checkpoint.average, context_.communicator);
  }
  context_.saver.start(std::move(checkpoint), best, rows_written);
  if (!context_.experiment.checkpoint.async) finish();
  saved_step_ = state.step;
  saved_path_ = (checkpoints_folder(context_.run_dir) / checkpoint_name(state.step)).string();
  since_save_.restart();
}

bool Checkpointer::is_due_by_clock() const {
  const auto seconds = context_.experiment.checkpoint.every.seconds;
  return seconds > 0 && since_save_.seconds() >= seconds;
}

void Checkpointer::finish() {
  alive_();
  context_.saver.wait(alive_);
  for (const auto& warning : context_.saver.take_warnings()) log::warn(warning);
}

void Checkpointer::rescue() noexcept try { context_.saver.wait(alive_); } catch (const std::exception& error) {
  log::warn(error.what());
}

// Has rank 0 write what ranks have that cannot write to the run's folder, and each other rank its own.
void Checkpointer::share(Checkpoint& checkpoint) const {
  checkpoint.is_shared = true;
  if (all_write_) return;
  for (auto* part : {&checkpoint.optimizer, &checkpoint.average}) {
    auto sent = gather_apart(writes_ ? TensorDict() : std::exchange(*part, {}), context_.communicator);
    part->merge(sent);
  }
}

// Returns the live state on rank 0, with what the others sent; on those little more than their share of the
// optimizer's.
Checkpoint Checkpointer::live(const TrainState& state) const {
  const auto own = rng_state(context_.backend.get());
  Checkpoint checkpoint{.step = state.step,
                        .ranks = gather_tensors(own, context_.communicator),
                        .replaces = features_.finishes(Finish::kDone)};
  if (context_.is_rank_zero() || step_.share().is_shared()) {
    checkpoint.average = step_.ema().state();
    checkpoint.optimizer = in_plugin({"optimizer", "state"}, [&] { return context_.optimizer->state(); });
  }
  if (!context_.is_rank_zero()) return checkpoint;
  checkpoint.ranks.front().merge(features_.state());
  checkpoint.left_out = base_.left_out();
  for (const auto& tensor : state_tensors(*context_.model))
    if (!base_.has(tensor.name)) checkpoint.model[tensor.name] = tensor.value.detach();
  checkpoint.progress = state.to_json();
  return checkpoint;
}

void Checkpointer::restore(const Checkpoint& checkpoint, const TrainState& state, const std::string& path) {
  const auto rank = static_cast<size_t>(context_.communicator.world().rank);
  const auto own = rank < checkpoint.ranks.size() ? checkpoint.ranks[rank] : TensorDict();
  step_.ema().load_state(checkpoint.average);
  if (rank == 0) {
    base_.keep_changed(checkpoint.model);
    const auto& model = *context_.model;
    load_weights(model, with_left_out(checkpoint.model, checkpoint.left_out, model, context_.first_weights, path),
                 path);
  }
  broadcast_state(*context_.model, context_.communicator);
  in_plugin({"optimizer", "load_state"},
            [&] { context_.optimizer->load_state(step_.share().own(checkpoint.optimizer)); });
  features_.each(&Feature::load_state, checkpoint.ranks.empty() ? TensorDict() : checkpoint.ranks.front());
  set_rng_state(own, context_.backend.get());
  saved_step_ = state.step;
  saved_path_ = path;
}

// Only rank 0 reads: the others learn whether it could, and get its weights.
void Checkpointer::with_weights_of(const std::string& name, const std::function<void()>& use) {
  const auto path = checkpoints_folder(context_.run_dir) / name;
  const KeptWeights kept(*context_.model);
  std::string problem;
  try {
    if (context_.is_rank_zero()) load_weights(*context_.model, whole(verify_checkpoint(path)), path.string());
  } catch (const std::exception& error) {
    problem = error.what();
    log::warn("the best checkpoint is not tested: " + problem);
  }
  if (!context_.communicator.broadcast_text(problem).empty()) return;
  broadcast_state(*context_.model, context_.communicator);
  use();
}

// The model has what was left out, unless an earlier attempt left out more than this one.
TensorDict Checkpointer::whole(const CheckpointInfo& info) const {
  const auto& model = *context_.model;
  auto held = inference_weights(info);
  const bool has_all = std::ranges::all_of(
      model.named_parameters().keys(), [&](const std::string& name) { return held.contains(name) || base_.has(name); });
  if (!has_all) return whole_weights(info);
  return with_left_out(std::move(held), info.left_out, model, context_.first_weights, info.path.string());
}

bool Checkpointer::is_own() const {
  return std::filesystem::path(saved_path_).parent_path() == checkpoints_folder(context_.run_dir);
}

}  // namespace ddprun
