// SPDX-License-Identifier: MIT
// The checks that train a model.
#include "model_scene.h"
#include "problem.h"

#include <ddprun/testing/model.h>

#include <ATen/ATen.h>

#include <cmath>
#include <map>

namespace ddprun::check {
namespace {

// Adam as in its paper, so that no LibTorch optimizer is needed here.
class Adam {
 public:
  Adam(std::vector<NamedParameter> parameters, double lr) : parameters_(std::move(parameters)), lr_(lr) {
    for (const auto& [name, value] : parameters_) {
      means_.push_back(at::zeros_like(value.detach()));
      squares_.push_back(at::zeros_like(value.detach()));
    }
  }

  void step() {
    const at::NoGradGuard no_gradients;
    ++steps_;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto& value = parameters_[i].value;
      if (!value.grad().defined()) continue;
      means_[i].mul_(0.9).add_(value.grad(), 0.1);
      squares_[i].mul_(0.999).addcmul_(value.grad(), value.grad(), 0.001);
      const double of_mean = 1 - std::pow(0.9, steps_), of_square = 1 - std::pow(0.999, steps_);
      value.detach().addcdiv_(means_[i] / of_mean, (squares_[i] / of_square).sqrt_().add_(1e-8), -lr_);
    }
  }

 private:
  std::vector<NamedParameter> parameters_;
  std::vector<at::Tensor> means_, squares_;
  double lr_;
  int steps_ = 0;
};

// Does one training step on the scene's batch. Returns the loss before it.
double train_once(const ModelScene& scene, Adam& adam) {
  scene.model().zero_grad();
  const auto loss = scene.step().loss;
  if (!loss.requires_grad()) complain("the loss of step() is not attached to the graph, so nothing can be trained");
  in_hook("backward()", [&] { loss.backward(); });
  adam.step();
  return loss.item<double>();
}

double loss_in_evaluation(const ModelScene& scene) {
  const at::NoGradGuard no_gradients;
  scene.model().eval();
  return scene.step().loss.item<double>();
}

void complain_of_loss(const Overfit& overfit, int64_t samples, double first, double last) {
  complain("after ", overfit.steps, " steps of Adam on the same ", samples, " samples the loss is ", last,
           ", where it began at ", first, "; expected below ", overfit.share * first,
           std::abs(last - first) < 0.01 * std::abs(first)
               ? ": nothing is learnt; does forward() use the input, and the loss the weights?"
               : ": it learns, but cannot fit them; give it more units or steps, or look for what limits it");
}

// Returns what a checkpoint holds of a model.
std::map<std::string, at::Tensor> state_of(const Model& model) {
  std::map<std::string, at::Tensor> state;
  for (const auto& entry : model.named_parameters()) state[entry.key()] = entry.value().detach();
  for (const auto& entry : model.named_buffers()) {
    if (entry.value().defined()) state[entry.key()] = entry.value();
  }
  return state;
}

void copy_state(const Model& from, const Model& to) {
  const at::NoGradGuard no_gradients;
  const auto saved = state_of(from);
  auto target = state_of(to);
  for (const auto& [name, value] : saved) {
    const auto found = target.find(name);
    if (found == target.end())
      complain("made again, the model has no tensor ", name, ": the names must not depend on chance or training");
    if (found->second.sizes() != value.sizes()) {
      complain("made again, the model has ", name, " of shape ", found->second.sizes(), ", trained it has ",
               value.sizes(), ": its size must not change, or a checkpoint does not fit");
    }
    found->second.copy_(value);
  }
  for (const auto& [name, value] : target) {
    if (!saved.contains(name)) complain("trained, the model has no tensor ", name, " that it begins with");
  }
}

}  // namespace

std::string overfits(const ModelTest& test, const Overfit& overfit) {
  return problem_of([&] {
    const ModelScene scene(test);
    scene.model().train();
    Adam adam(trainable_parameters(scene.model()), overfit.lr);
    double first = 0, last = 0;
    for (int64_t step = 0; step < overfit.steps; ++step) {
      last = train_once(scene, adam);
      if (step == 0) first = last;
      if (!std::isfinite(last)) complain("the loss is ", last, " at step ", step + 1, " (lr ", overfit.lr, ")");
      if (step > 0 && last < overfit.share * first) return;
    }
    last = std::min(last, loss_in_evaluation(scene));  // evaluated without dropout
    if (last < overfit.share * first) return;
    complain_of_loss(overfit, scene.batch().size(), first, last);
  });
}

std::string state_round_trip(const ModelTest& test) {
  return problem_of([&] {
    const ModelScene scene(test, 1), again(test, 2);
    scene.model().train();
    Adam adam(trainable_parameters(scene.model()), 0.01);
    for (int step = 0; step < 3; ++step) train_once(scene, adam);
    copy_state(scene.model(), again.model());
    const at::NoGradGuard no_gradients;
    scene.model().eval();
    again.model().eval();
    if (at::equal(scene.predict(), again.predict(scene.batch()))) return;
    complain(
        "a new model with the parameters and buffers of the trained one predicts something else: it keeps state that "
        "is "
        "in no ",
        "checkpoint; give it to register_parameter() or register_buffer()");
  });
}

}  // namespace ddprun::check
