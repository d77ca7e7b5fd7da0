// SPDX-License-Identifier: MIT
#include "features/callbacks/callbacks.h"

#include "base/log.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"
#include "step/context.h"
#include "step/train_step.h"
#include "train/checkpointer.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

namespace ddprun {
namespace {

// The state is "callbacks", whether they have finished, and of each callback "callbacks/swa/lr_factor" and its own
// tensors, "callbacks/swa/state/average".
const std::string kFinished = "callbacks", kPrefix = "callbacks/", kLrFactor = "/lr_factor", kState = "/state/";

// Returns "a checkpoint, lr_factor 0.5", with all digits of the number, or "nothing".
std::string words_of(const Requests& requests) {
  std::vector<std::string> asked;
  if (requests.evaluate) asked.emplace_back("an evaluation");
  if (requests.save) asked.emplace_back("a checkpoint");
  if (!requests.stop.empty()) asked.push_back("a stop (" + requests.stop + ")");
  if (requests.lr_factor) asked.push_back("lr_factor " + nlohmann::json(*requests.lr_factor).dump());
  std::string text;
  for (const auto& one : asked) text += (text.empty() ? "" : ", ") + one;
  return text.empty() ? "nothing" : text;
}

bool is_empty(const Requests& requests) {
  return !requests.evaluate && !requests.save && requests.stop.empty() && !requests.lr_factor;
}

void require_sensible(const Requests& requests, const std::string& path, const char* hook) {
  if (!requests.lr_factor || (*requests.lr_factor >= 0 && std::isfinite(*requests.lr_factor))) return;
  throw PluginMistake(
      {path, log::text(hook, "() asks for lr_factor ", *requests.lr_factor, "; expected a number of at least 0")});
}

}  // namespace

Callbacks::Callbacks(std::vector<NamedCallback> callbacks, Communicator& communicator) : communicator_(communicator) {
  std::multiset<std::string> names;
  for (auto& one : callbacks) {
    auto name = std::filesystem::path(one.plugin).stem().string();
    const auto count = names.count(*names.insert(name));
    if (count > 1) name += log::text("_", count);
    entries_.push_back({std::move(one), std::move(name)});
  }
}

void Callbacks::start(Loop& loop) {
  const auto& context = loop.context;
  const auto& world = context.communicator.world();
  const Training training{.model = context.model,
                          .dataset = context.dataset,
                          .rank = world.rank,
                          .world_size = world.size,
                          .step = loop.state.step,
                          .steps_per_epoch = loop.plan.steps_per_epoch(),
                          .max_steps = loop.plan.max_steps(),
                          .global_batch = loop.state.global_batch};
  for (auto& entry : entries_) {
    in_plugin({entry.path.c_str(), "start"}, [&] { entry.callback->start(training); });
    entry.every = in_plugin({entry.path.c_str(), "every"}, [&] { return entry.callback->every(); });
    if (entry.every < 1)
      throw PluginMistake({entry.path, log::text("every() returns ", entry.every, "; expected at least 1")});
  }
  loop.step.lr().set_factor(lr_factor());
  if (!loop.plan.all_done(loop.state)) finished_ = false;
}

void Callbacks::computed(Loop& /*loop*/, const TrainBatch& /*batch*/, const StepOutcome* outcome) {
  loss_ = outcome ? outcome->mean_loss() : at::Tensor();
}

void Callbacks::after_step(Loop& loop) {
  loop.step.settle_weights();
  const StepDone step{.epoch = loop.plan.epoch_of(loop.state.step),
                      .step = loop.state.step,
                      .samples = loop.state.samples,
                      .lr = loop.step.lr().values().front().second,
                      .loss = loss_};
  std::vector<Answer> answers;
  for (auto& entry : entries_) {
    if (!entry.callback->sees_steps() || step.step % entry.every != 0) continue;
    answers.push_back(
        {&entry, in_plugin({entry.path.c_str(), "after_step"}, [&] { return entry.callback->after_step(step); })});
  }
  obey(agreed(std::move(answers), "after_step", step.step), loop);
}

void Callbacks::after_evaluation(Loop& loop, const NamedValues& metrics) {
  if (metrics.empty()) return;
  const EvaluationDone evaluation{
      .split = "val", .epoch = loop.plan.epoch_of(loop.state.step), .step = loop.state.step, .metrics = metrics};
  std::vector<Answer> answers;
  for (auto& entry : entries_) {
    answers.push_back({&entry, in_plugin({entry.path.c_str(), "after_evaluation"},
                                         [&] { return entry.callback->after_evaluation(evaluation); })});
  }
  obey(agreed(std::move(answers), "after_evaluation", evaluation.step), loop);
}

void Callbacks::obey(const Requests& requests, Loop& loop) const {
  loop.step.lr().set_factor(lr_factor());
  if (requests.save) loop.checkpoints.ask();
  loop.state.evaluation_asked |= requests.evaluate && loop.state.step > loop.state.evaluated_step;
  if (!requests.stop.empty()) loop.state.stop_early(requests.stop);
}

// The common case, that nobody asks for anything, costs one exchange of a few bytes.
Requests Callbacks::agreed(std::vector<Answer> answers, const char* hook, int64_t step) {
  Requests all;
  if (answers.empty()) return all;
  auto mine = nlohmann::json::array();
  for (const auto& [entry, requests] : answers) mine.push_back(words_of(requests));
  auto asking = at::scalar_tensor(std::ranges::all_of(answers, is_empty, &Answer::requests) ? 0 : 1, at::kLong);
  communicator_.sum(asking);
  if (asking.item<int64_t>() == 0) return all;
  const auto ranks = communicator_.gather_texts(mine.dump());
  for (size_t i = 0; i < answers.size(); ++i) {
    auto& [entry, requests] = answers[i];
    const auto first = nlohmann::json::parse(ranks.front()).at(i).get<std::string>();
    for (size_t rank = 1; rank < ranks.size(); ++rank) {
      const auto other = nlohmann::json::parse(ranks[rank]).at(i).get<std::string>();
      if (other == first) continue;
      throw PluginMistake({entry->path, log::text(hook, "() must ask for the same on all ranks, but in step ", step,
                                                  " rank 0 asks for ", first, ", and rank ", rank, " for ", other)});
    }
    require_sensible(requests, entry->path, hook);
    all.evaluate |= requests.evaluate;
    all.save |= requests.save;
    if (all.stop.empty() && !requests.stop.empty()) all.stop = entry->plugin + ": " + requests.stop;
    if (requests.lr_factor) all.lr_factor = entry->lr_factor = *requests.lr_factor;
  }
  return all;
}

void Callbacks::finish() {
  finished_ = true;
  for (const auto& entry : entries_) in_plugin({entry.path.c_str(), "finish"}, [&] { entry.callback->finish(); });
}

// Returns the product of the factors that they have asked for.
double Callbacks::lr_factor() const {
  double product = 1;
  for (const auto& entry : entries_) product *= entry.lr_factor;
  return product;
}

TensorDict Callbacks::state() const {
  TensorDict state;
  state[kFinished] = at::scalar_tensor(finished_, at::kBool);
  for (const auto& entry : entries_) {
    state[kPrefix + entry.name + kLrFactor] = at::scalar_tensor(entry.lr_factor, at::kDouble);
    const auto own = in_plugin({entry.path.c_str(), "state"}, [&] {
      auto tensors = entry.callback->state();
      for (const auto& [name, tensor] : tensors) require_storable(name, tensor);
      return tensors;
    });
    for (const auto& [name, tensor] : own) {
      state[kPrefix + entry.name + kState + name] = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
    }
  }
  return state;
}

void Callbacks::load_state(const TensorDict& saved) {
  std::set<std::string> unknown;
  for (const auto& [key, tensor] : saved) {
    if (key.starts_with(kPrefix)) unknown.insert(key.substr(0, key.find('/', kPrefix.size())));
  }
  finished_ = saved.contains(kFinished) && saved.at(kFinished).item<bool>();
  for (auto& entry : entries_) {
    if (unknown.erase(kPrefix + entry.name) == 0) continue;
    const auto prefix = kPrefix + entry.name + kState;
    TensorDict own;
    for (const auto& [key, tensor] : saved) {
      if (key.starts_with(prefix)) own[key.substr(prefix.size())] = tensor;
    }
    entry.lr_factor = saved.at(kPrefix + entry.name + kLrFactor).item<double>();
    in_plugin({entry.path.c_str(), "load_state"}, [&] { entry.callback->load_state(own); });
  }
  if (communicator_.world().rank != 0) return;
  for (const auto& name : unknown) {
    log::warn("the checkpoint has the state of the callback " + name.substr(kPrefix.size()) +
              ", which the experiment no longer names; it is dropped");
  }
}

std::unique_ptr<Feature> make_callbacks(const Context& context, const TrainPlan& /*plan*/) {
  std::vector<NamedCallback> callbacks;
  for (const auto& choice : context.experiment.callbacks)
    callbacks.push_back({choice.plugin, choice.path, context.plugins->make_callback(choice)});
  if (callbacks.empty()) return nullptr;
  return std::make_unique<Callbacks>(std::move(callbacks), context.communicator);
}

}  // namespace ddprun
