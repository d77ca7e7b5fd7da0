// SPDX-License-Identifier: MIT
// The checks that look at a model once, without training it.
#include "model_scene.h"
#include "problem.h"

#include <ddprun/testing/gradients.h>
#include <ddprun/testing/model.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <unordered_set>

namespace ddprun::check {
namespace {

// A number for each class, of each sample, of each of its symbols or, before height and width, of each of its pixels.
std::vector<int64_t> shape_of_scores(const Batch& batch, int64_t classes) {
  const auto& target = batch.target;
  auto shape = target.dim() > 1 ? target.sizes().vec() : std::vector<int64_t>{batch.size()};
  shape.insert(target.dim() > 2 ? shape.begin() + 1 : shape.end(), classes);
  return shape;
}

void check_shape(const ModelTest& test, const ModelScene& scene, const Batch& batch, const at::Tensor& prediction) {
  const auto gave =
      c10::str(scene.predicting(), " gives ", prediction.sizes(), " for an input of ", batch.input.sizes());
  if (prediction.dim() < 1 || prediction.size(0) != batch.size()) {
    complain(gave, ": the first dimension is that of the samples, ", batch.size());
  }
  const bool classifies = test.data.classes > 0 && !test.objective;
  const auto expected = shape_of_scores(batch, test.data.classes);
  if (classifies && prediction.sizes() != at::IntArrayRef(expected)) {
    complain(gave, ": expected ", at::IntArrayRef(expected), ", a number for each class");
  }
  if (!prediction.is_floating_point())
    complain(gave, " of type ", prediction.scalar_type(), ": expected floating-point numbers");
  if (!prediction.isfinite().all().item<bool>()) complain(gave, " with NaN or infinite numbers among them");
}

void check_alone(const ModelScene& scene, const at::Tensor& together) {
  const auto& batch = scene.batch();
  for (int64_t sample = 0; sample < batch.size(); ++sample) {
    const auto alone = scene.predict(part(batch, sample, 1));
    if (at::allclose(alone, together.narrow(0, sample, 1), 1e-3, 1e-4)) continue;
    complain(
        "in evaluation sample ", sample, " gets a different prediction alone than in a batch of ", batch.size(),
        ": it depends on the other samples; does something compute over the batch although is_training() is false?");
  }
}

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

void check_registered(const Model& model, const at::Tensor& loss) {
  std::unordered_set<c10::TensorImpl*> known;
  for (const auto& parameter : model.parameters()) known.insert(parameter.unsafeGetTensorImpl());
  for (const auto& leaf : leaves_of(loss)) {
    if (known.contains(leaf.unsafeGetTensorImpl())) continue;
    complain("the loss depends on a trainable tensor of shape ", leaf.sizes(),
             " that the model does not register: it would not be ",
             "trained nor saved; give its layer to register_module(), or the tensor to register_parameter()");
  }
}

void check_gradients_arrive(const Model& model) {
  for (const auto& [name, value] : trainable_parameters(model)) {
    if (!value.grad().defined()) {
      complain(name, " gets no gradient: the loss does not depend on it; use it in forward(), remove it, or set ",
               "trainer.find_unused_parameters=true where that is meant");
    }
    if (!value.grad().isfinite().all().item<bool>()) complain(name, " gets a gradient with NaN or infinite numbers");
  }
}

void check_seed(const ModelScene& one, const ModelScene& other) {
  const auto parameters = trainable_parameters(one.model()), again = trainable_parameters(other.model());
  if (parameters.size() != again.size()) {
    complain("made twice, the model has ", parameters.size(), " and ", again.size(), " parameters");
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name == again[i].name && at::equal(parameters[i].value, again[i].value)) continue;
    complain("made twice from the same seed, the model has different numbers in ", parameters[i].name,
             ": draw them in prepare() from ",
             "LibTorch's generator (torch::randn, torch::nn::init), which the runner seeds");
  }
}

std::string wrong_gradient(const GradientFinding& finding) {
  return c10::str("of ", finding.parameter, " backward gives ", finding.by_backward, " where finite differences give ",
                  finding.by_difference);
}

}  // namespace

std::string shapes(const ModelTest& test) {
  return problem_of([&] {
    const ModelScene scene(test);
    const auto& batch = scene.batch();
    const at::NoGradGuard no_gradients;
    scene.model().eval();
    for (int64_t count = 1; count <= batch.size(); ++count) {
      const auto samples = part(batch, 0, count);
      check_shape(test, scene, samples, scene.predict(samples));
    }
    const auto together = scene.predict().clone();
    if (!at::equal(together, scene.predict())) {
      complain(
          "in evaluation the same input gives a different prediction the second time: is there noise, such as dropout, "
          "that does ",
          "not ask is_training()?");
    }
    check_alone(scene, together);
  });
}

std::string parameters(const ModelTest& test) {
  return problem_of([&] {
    const ModelScene scene(test);
    auto& model = scene.model();
    model.train();
    const auto loss = scene.step().loss;
    if (!loss.requires_grad() && trainable_parameters(model).empty()) {
      complain("the model has no parameters: prepare() gives each layer to register_module()");
    }
    if (!loss.requires_grad()) {
      complain(
          "the loss of step() is not attached to the graph, so nothing can be trained: is there a detach(), an item() "
          "or a ",
          "NoGradGuard on its way?");
    }
    check_registered(model, loss);
    in_hook("backward()", [&] { loss.backward(); });
    check_gradients_arrive(model);
    check_seed(ModelScene(test), ModelScene(test));
  });
}

std::string gradients(const ModelTest& test, int64_t numbers) {
  return problem_of([&] {
    const ModelScene scene(test);
    const auto findings = in_hook("step() or backward()", [&] {
      const auto loss_of = [&](const Batch& batch) { return scene.model().step(batch, scene.objective()).loss; };
      return compare_gradients(scene.model(), loss_of, scene.batch(), numbers, 1);
    });
    std::string wrong;
    for (const auto& finding : findings) {
      if (finding.wrong()) wrong += (wrong.empty() ? "" : "; ") + wrong_gradient(finding);
    }
    if (!wrong.empty()) {
      complain(
          wrong,
          ": look for a backward of your own, a detach() or data_ptr() on the way to the loss, or a change in place");
    }
  });
}

std::vector<std::string> all(const ModelTest& test) {
  return problems_of({{"shapes", [&] { return shapes(test); }},
                      {"parameters", [&] { return parameters(test); }},
                      {"gradients", [&] { return gradients(test); }},
                      {"overfits", [&] { return overfits(test); }},
                      {"state_round_trip", [&] { return state_round_trip(test); }},
                      {"ranks_agree", [&] { return ranks_agree(test); }}});
}

}  // namespace ddprun::check
