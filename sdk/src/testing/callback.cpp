// SPDX-License-Identifier: MIT
#include "problem.h"

#include <ddprun/callback.h>
#include <ddprun/testing/callback.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

namespace ddprun::check {
namespace {

constexpr int64_t kStepsPerEpoch = 4, kGlobalBatch = 8;
using State = std::map<std::string, at::Tensor>;

class Weights final : public Model {
 public:
  Weights() : layer_(register_module("layer", torch::nn::Linear(3, 2))) { set(0); }

  // Draws the weights that there are after this step.
  void set(int64_t step) {
    const at::NoGradGuard no_gradients;
    at::manual_seed(static_cast<uint64_t>(step));
    for (auto& parameter : parameters()) parameter.copy_(at::randn_like(parameter));
  }
  at::Tensor forward(const at::Tensor& input) override { return layer_(input); }

 private:
  torch::nn::Linear layer_{nullptr};
};

std::string words_of(const Requests& requests) {
  std::string text;
  if (requests.evaluate) text += " evaluate";
  if (requests.save) text += " save";
  if (requests.lr_factor) text += c10::str(" lr_factor ", *requests.lr_factor);
  if (!requests.stop.empty()) text += " stop: " + requests.stop;
  return text;
}

// One rank's training, from its start or from a state.
class Scene {
 public:
  Scene(const CallbackTest& test, int64_t rank, int64_t world_size, int64_t begin = 0,
        const std::optional<State>& state = std::nullopt)
      : test_(test), callback_(test.make()), model_(std::make_shared<Weights>()), rank_(rank), step_(begin) {
    model_->set(begin);
    if (state) in_hook("load_state()", [&] { callback_->load_state(*state); });
    in_hook("start()", [&] {
      callback_->start({.model = model_,
                        .rank = rank,
                        .world_size = world_size,
                        .step = begin,
                        .steps_per_epoch = kStepsPerEpoch,
                        .max_steps = test.epochs * kStepsPerEpoch,
                        .global_batch = kGlobalBatch});
    });
    every_ = in_hook("every()", [&] { return callback_->every(); });
    if (every_ < 1) complain("every() returns ", every_, ": expected at least 1");
  }

  bool done() const { return stopped_ || step_ == test_.epochs * kStepsPerEpoch; }

  // Does a step, with the evaluation at the end of an epoch. Returns what was asked for.
  std::string step() {
    model_->set(++step_);
    const auto epoch = (step_ - 1) / kStepsPerEpoch + 1;
    std::string text;
    if (step_ % every_ == 0) {
      const StepDone step{
          .epoch = epoch,
          .step = step_,
          .samples = step_ * kGlobalBatch,
          .lr = 0.1,
          .loss = at::scalar_tensor(1.0 / static_cast<double>(step_) + 0.1 * static_cast<double>(rank_))};
      text += noted(in_hook("after_step()", [&] { return callback_->after_step(step); }));
    }
    if (step_ % kStepsPerEpoch == 0) {
      const EvaluationDone evaluation{.split = "val", .epoch = epoch, .step = step_, .metrics = metrics(epoch)};
      text += noted(in_hook("after_evaluation()", [&] { return callback_->after_evaluation(evaluation); }));
    }
    return text.empty() ? "" : c10::str("step ", step_, ":", text);
  }

  void finish() {
    in_hook("finish()", [&] { callback_->finish(); });
  }

  State state() const {
    auto state = in_hook("state()", [&] { return callback_->state(); });
    for (auto& [name, tensor] : state) {
      if (!tensor.defined()) complain("state() has an undefined tensor ", name, ": leave it out");
      tensor = tensor.detach().clone();
    }
    return state;
  }
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> copies;
    for (const auto& parameter : model_->parameters()) copies.push_back(parameter.detach().clone());
    return copies;
  }

 private:
  std::vector<std::pair<std::string, double>> metrics(int64_t epoch) const {
    if (test_.metrics) return test_.metrics(epoch);
    const double loss = 1 / static_cast<double>(epoch);
    return {{"val/loss", loss}, {"val/accuracy", 1 - loss}};
  }
  std::string noted(const Requests& requests) {
    stopped_ |= !requests.stop.empty();
    return words_of(requests);
  }

  const CallbackTest& test_;
  std::shared_ptr<Callback> callback_;
  std::shared_ptr<Weights> model_;
  int64_t rank_, step_, every_ = 1;
  bool stopped_ = false;
};

double distance(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others) {
  double most = 0;
  for (size_t i = 0; i < some.size(); ++i) most = std::max(most, (some[i] - others[i]).abs().max().item<double>());
  return most;
}

void check_ranks(const CallbackTest& test) {
  Scene first(test, 0, 2), second(test, 1, 2);
  while (!first.done()) {
    const auto one = first.step(), other = second.step();
    if (one != other)
      complain("rank 0 asks for \"", one, "\", and rank 1 for \"", other,
               "\": decide by what is the same on all ranks, not by the loss of a rank's own samples");
  }
  first.finish();
  second.finish();
  const auto difference = distance(first.weights(), second.weights());
  if (difference > 0) complain("finish() leaves other weights on rank 1 than on rank 0: they differ by ", difference);
}

void check_resumed(const CallbackTest& test, int64_t interruption) {
  Scene whole(test, 0, 1);
  for (int64_t i = 0; i < interruption && !whole.done(); ++i) whole.step();
  if (whole.done()) return;
  Scene resumed(test, 0, 1, interruption, whole.state());
  while (!whole.done()) {
    const auto expected = whole.step(), found = resumed.step();
    if (expected != found)
      complain("resumed after step ", interruption, ", it asks for \"", found, "\" where it asks for \"", expected,
               "\" without interruption: state() must hold all that later calls depend on, and load_state() take it");
  }
  whole.finish();
  resumed.finish();
  const auto difference = distance(whole.weights(), resumed.weights());
  if (difference > 0)
    complain("resumed after step ", interruption,
             ", finish() leaves other weights than without interruption: they differ by ", difference);
}

}  // namespace

CallbackRun run_of(const CallbackTest& test) {
  CallbackRun run;
  Scene scene(test, 0, 1);
  while (!scene.done()) {
    if (const auto asked = scene.step(); !asked.empty()) run.requests.push_back(asked);
  }
  const auto before = scene.weights();
  scene.finish();
  run.weights_changed = distance(before, scene.weights());
  return run;
}

std::string ranks_agree(const CallbackTest& test) {
  return problem_of([&] { check_ranks(test); });
}

std::string state_round_trip(const CallbackTest& test) {
  return problem_of([&] {
    for (int64_t step = 0; step < test.epochs * kStepsPerEpoch; ++step) check_resumed(test, step);
  });
}

std::vector<std::string> all(const CallbackTest& test) {
  return problems_of({{"ranks_agree", [&] { return ranks_agree(test); }},
                      {"state_round_trip", [&] { return state_round_trip(test); }}});
}

}  // namespace ddprun::check
