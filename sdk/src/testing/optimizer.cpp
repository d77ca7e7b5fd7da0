// SPDX-License-Identifier: MIT
#include "optimizer_scene.h"
#include "problem.h"

#include <ddprun/testing/optimizer.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace ddprun::check {
namespace {

void compare(const NamedParameter& ours, const NamedParameter& reference, int64_t step, double tolerance) {
  if (ours.value.scalar_type() == at::kDouble) tolerance = std::min(tolerance, 1e-12);
  if (at::allclose(ours.value, reference.value, tolerance, tolerance)) return;
  const auto difference = (ours.value - reference.value).abs().max().item<double>();
  complain("after step ", step, " ", ours.name, " differs from the reference's by ", difference,
           step == 1 ? ": in the first step already; are options and defaults the same?"
                     : ": the first steps agree; look at what it remembers from step to step");
}

// Returns half the sum of squares, whose gradient is the parameter itself.
double bowl(const Parameters& parameters) {
  double value = 0;
  for (const auto& [name, tensor] : parameters) {
    if (name == "frozen") continue;
    value += 0.5 * tensor.detach().to(at::kDouble).square().sum().item<double>();
    tensor.mutable_grad() = tensor.detach().clone();
  }
  return value;
}

void check_descent(const OptimizerTest& test) {
  const auto parameters = given_parameters();
  const auto optimizer = started(test, parameters);
  const double first = bowl(parameters);
  for (int64_t i = 0; i < test.steps; ++i) {
    bowl(parameters);
    step(*optimizer);
  }
  const double last = bowl(parameters);
  if (last < first) return;
  complain("after ", test.steps, " steps down a bowl its value is ", last, ", where it began at ", first,
           last == first ? ": step() changes nothing; are the parameters those of groups()?"
                         : ": it climbs; is the sign right?");
}

void check_left_alone(const OptimizerTest& test) {
  const auto parameters = given_parameters(), before = given_parameters();
  const auto optimizer = started(test, parameters);
  train(*optimizer, parameters, 0, 4);
  for (const size_t i : {size_t{2}, size_t{3}}) {  // late, frozen
    if (!at::equal(parameters[i].value, before[i].value))
      complain(parameters[i].name, " has changed, although it has no gradient");
  }
}

void check_learning_rate(const OptimizerTest& test) {
  const auto parameters = given_parameters();
  const auto optimizer = started(test, parameters);
  train(*optimizer, parameters, 0, 3);
  for (auto& group : optimizer->groups()) group.lr = 0;
  const auto before = copies(parameters);
  train(*optimizer, parameters, 3, 4);
  const auto changed = first_difference(before, parameters);
  if (!changed.empty()) {
    complain("with lr 0 in groups() a step changes ", changed,
             ": read the lr of the group in each step, or no schedule has an effect");
  }
}

void check_overflow(const OptimizerTest& test) {
  const auto parameters = given_parameters(), skipping_parameters = given_parameters();
  const auto optimizer = started(test, parameters), skipping = started(test, skipping_parameters);
  const auto none = at::zeros({}), found_inf = at::ones({});
  const at::NoGradGuard no_gradients;
  for (int64_t number = 0; number < 8; ++number) {
    give_gradients(parameters, number);
    step(*optimizer);
    if (number == 0 || number == 3) {
      give_gradients(skipping_parameters, number);
      skipping_parameters[0].value.mutable_grad().fill_(std::numeric_limits<float>::infinity());
      in_hook("step_unless()", [&] { skipping->step_unless(found_inf); });
    }
    give_gradients(skipping_parameters, number);
    in_hook("step_unless()", [&] { skipping->step_unless(none); });
    const auto changed = first_difference(parameters, skipping_parameters);
    if (changed.empty()) continue;
    complain("after step ", number + 1, " ", changed,
             " is different if step_unless(1) was called before: a step that overflowed must ",
             "change neither the parameters nor what the optimizer remembers");
  }
}

}  // namespace

std::string same_as(const OptimizerTest& test, const Reference& reference, double tolerance) {
  return problem_of([&] {
    const auto ours = given_parameters(), theirs = given_parameters();
    const auto optimizer = started(test, ours);
    std::vector<at::Tensor> tensors;
    for (const auto& parameter : theirs) tensors.push_back(parameter.value);
    const auto step_reference = reference(tensors);
    for (int64_t number = 0; number < test.steps; ++number) {
      train(*optimizer, ours, number, number + 1);
      give_gradients(theirs, number);
      step_reference();
      for (size_t i = 0; i < ours.size(); ++i) compare(ours[i], theirs[i], number + 1, tolerance);
    }
  });
}

std::string steps(const OptimizerTest& test) {
  return problem_of([&] {
    check_left_alone(test);
    check_descent(test);
    check_learning_rate(test);
  });
}

std::string skips_overflow(const OptimizerTest& test) {
  return problem_of([&] { check_overflow(test); });
}

std::vector<std::string> all(const OptimizerTest& test) {
  return problems_of({{"steps", [&] { return steps(test); }},
                      {"skips_overflow", [&] { return skips_overflow(test); }},
                      {"state_round_trip", [&] { return state_round_trip(test); }},
                      {"step_parts", [&] { return step_parts(test); }}});
}

}  // namespace ddprun::check
