// SPDX-License-Identifier: MIT
#include "model_scene.h"
#include "problem.h"

#include <ddprun/testing/gradients.h>
#include <ddprun/testing/model.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <map>
#include <unordered_set>

namespace ddprun::check {
namespace {

// Returns the trainable tensors at the ends of the loss's graph.
std::vector<at::Tensor> leaves_of(const at::Tensor& loss) {
  std::vector<at::Tensor> leaves;
  std::vector<torch::autograd::Node*> open{loss.grad_fn().get()};
  std::unordered_set<torch::autograd::Node*> seen{open.front()};
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) leaves.push_back(leaf->variable);
    for (const auto& edge : node->next_edges()) {
      if (edge.is_valid() && seen.insert(edge.function.get()).second) open.push_back(edge.function.get());
    }
  }
  return leaves;
}

void check_registered(const ModelScene& scene) {
  std::unordered_set<c10::TensorImpl*> known;
  for (const auto& parameter : scene.model().parameters()) known.insert(parameter.unsafeGetTensorImpl());
  for (const auto& leaf : leaves_of(scene.step().loss)) {
    if (known.contains(leaf.unsafeGetTensorImpl())) continue;
    complain("the loss depends on a trainable tensor of shape ", leaf.sizes(),
             " that the model does not register: it would not be ",
             "trained nor saved; give its layer to register_module(), or the tensor to register_parameter()");
  }
}

void check_seed(const ModelScene& one, const ModelScene& other) {
  const auto parameters = trainable_parameters(one.model()), again = trainable_parameters(other.model());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (at::equal(parameters[i].value, again.at(i).value)) continue;
    complain("made twice from the same seed, the model has different numbers in ", parameters[i].name,
             ": draw them in prepare() from ",
             "LibTorch's generator (torch::randn, torch::nn::init), which the runner seeds");
  }
}

// Takes three steps of gradient descent.
void train(const ModelScene& scene) {
  scene.model().train();
  for (int i = 0; i < 3; ++i) {
    scene.model().zero_grad();
    in_hook("backward()", [&] { scene.step().loss.backward(); });
    const at::NoGradGuard no_gradients;
    for (const auto& [name, value] : trainable_parameters(scene.model()))
      if (value.grad().defined()) value.detach().sub_(value.grad(), 0.01);
  }
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
  const auto target = state_of(to);
  for (const auto& [name, value] : state_of(from)) {
    const auto found = target.find(name);
    if (found == target.end() || found->second.sizes() != value.sizes())
      complain("made again, the model has no tensor ", name, " of ", value.sizes(),
               ": names and sizes must not depend on chance or training, or a checkpoint does not fit");
    found->second.copy_(value);
  }
}

}  // namespace

std::string evaluation(const ModelTest& test) {
  return problem_of([&] {
    const ModelScene scene(test);
    const auto& batch = scene.batch();
    const at::NoGradGuard no_gradients;
    scene.model().eval();
    const auto together = scene.predict().clone();
    for (int64_t sample = 0; sample < batch.size(); ++sample) {
      const auto alone = scene.predict(part(batch, sample, 1));
      if (at::allclose(alone, together.narrow(0, sample, 1), 1e-3, 1e-4)) continue;
      complain("in evaluation sample ", sample, " gets a different prediction alone than in a batch of ", batch.size(),
               ": is there noise, such as dropout, or a mean over the batch, that does not ask is_training()?");
    }
  });
}

std::string parameters(const ModelTest& test) {
  return problem_of([&] {
    const ModelScene scene(test), again(test);
    check_seed(scene, again);
    scene.model().train();
    check_registered(scene);
  });
}

std::string gradients(const ModelTest& test, int64_t numbers) {
  return problem_of([&] {
    const ModelScene scene(test);
    const auto loss_of = [&](const Batch& batch) { return scene.model().step(batch, scene.objective()).loss; };
    require_right(in_hook("step() or backward()",
                          [&] { return compare_gradients(scene.model(), loss_of, scene.batch(), numbers, 1); }));
  });
}

std::string state_round_trip(const ModelTest& test) {
  return problem_of([&] {
    const ModelScene scene(test, 1), again(test, 2);
    train(scene);
    const at::NoGradGuard no_gradients;
    copy_state(scene.model(), again.model());
    scene.model().eval();
    again.model().eval();
    if (at::equal(scene.predict(), again.predict(scene.batch()))) return;
    complain(
        "a new model with the parameters and buffers of the trained one predicts something else: it keeps state that "
        "is in no checkpoint; give it to register_parameter() or register_buffer()");
  });
}

std::vector<std::string> all(const ModelTest& test) {
  return problems_of({{"evaluation", [&] { return evaluation(test); }},
                      {"parameters", [&] { return parameters(test); }},
                      {"gradients", [&] { return gradients(test); }},
                      {"state_round_trip", [&] { return state_round_trip(test); }},
                      {"ranks_agree", [&] { return ranks_agree(test); }}});
}

}  // namespace ddprun::check
