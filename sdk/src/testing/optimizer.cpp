// SPDX-License-Identifier: MIT
#include "problem.h"

#include <ddprun/error.h>
#include <ddprun/testing/optimizer.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>

namespace ddprun::check {
namespace {

using Parameters = std::vector<NamedParameter>;

// Returns the same numbers on each call, in several shapes and two types.
Parameters given_parameters() {
  const auto numbers = [](at::IntArrayRef shape, at::ScalarType type) {
    return at::randn(shape, type).requires_grad_();
  };
  at::manual_seed(1);
  return {{"conv.weight", numbers({8, 3, 3, 3}, at::kFloat)},
          {"conv.bias", numbers({8}, at::kFloat)},
          {"late", numbers({5}, at::kFloat)},
          {"frozen", numbers({4}, at::kFloat)},
          {"scale", numbers({}, at::kFloat)},
          {"double", numbers({7, 5}, at::kDouble)}};
}

bool has_gradient(const std::string& name, int64_t step) { return name != "frozen" && (name != "late" || step >= 5); }

// Sets gradients that depend only on the step.
void give_gradients(const Parameters& parameters, int64_t step) {
  at::manual_seed(static_cast<uint64_t>(100 + step));
  for (const auto& [name, value] : parameters) {
    const auto gradient = at::randn_like(value.detach());
    value.mutable_grad() = has_gradient(name, step) ? gradient : at::Tensor();
  }
}

void copy_values(const Parameters& from, const Parameters& to) {
  for (size_t i = 0; i < from.size(); ++i) to[i].value.detach().copy_(from[i].value.detach());
}

// An optimizer with parameters of its own. All methods throw Problem.
struct Scene {
  explicit Scene(const OptimizerTest& test) : optimizer(in_hook("the constructor", [&] { return test.make(); })) {
    in_hook("start()", [&] { optimizer->start(parameters); });
  }

  // Does the steps from, ..., to - 1 as the runner does; if there is a part, as the rank that has only that.
  void train(int64_t from, int64_t to, const StepPart* part = nullptr) const {
    const at::NoGradGuard no_gradients;
    for (int64_t number = from; number < to; ++number) {
      give_gradients(parameters, number);
      for (const auto& [name, value] : parameters)
        if (part && std::ranges::count(part->parameters, name) == 0) value.mutable_grad().reset();
      in_hook("step()", [&] { optimizer->step(); });
    }
  }

  void step_unless(const at::Tensor& found_inf) const {
    const at::NoGradGuard no_gradients;
    in_hook("step_unless()", [&] { optimizer->step_unless(found_inf); });
  }

  // Returns the state as a checkpoint gives it back.
  OptimizerState state() const {
    auto state = in_hook("state()", [&] { return optimizer->state(); });
    for (auto& [entry, tensor] : state) tensor = tensor.clone(at::MemoryFormat::Contiguous);
    return state;
  }

  void load(const OptimizerState& state) const {
    in_hook("load_state()", [&] { optimizer->load_state(state); });
  }

  // Returns the name of the first parameter whose bits are not those of the other, or empty if there is none.
  std::string first_difference(const Scene& other) const {
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!at::equal(parameters[i].value, other.parameters[i].value)) return parameters[i].name;
    }
    return "";
  }

  Parameters parameters = given_parameters();
  std::shared_ptr<Optimizer> optimizer;
};

void compare(const NamedParameter& ours, const NamedParameter& reference, int64_t step, double tolerance) {
  if (ours.value.scalar_type() == at::kDouble) tolerance = std::min(tolerance, 1e-12);
  if (at::allclose(ours.value, reference.value, tolerance, tolerance)) return;
  const auto difference = (ours.value - reference.value).abs().max().item<double>();
  complain("after step ", step, " ", ours.name, " differs from the reference's by ", difference,
           step == 1 ? ": in the first step already; are options and defaults the same?"
                     : ": the first steps agree; look at what it remembers from step to step");
}

void check_steps(const OptimizerTest& test) {
  const Scene scene(test), before(test);
  scene.train(0, 3);
  for (size_t i = 0; i < scene.parameters.size(); ++i) {
    const auto& [name, value] = scene.parameters[i];
    if (!has_gradient(name, 2) && !at::equal(value, before.parameters[i].value))
      complain(name, " has changed, although it has no gradient");
  }
  if (scene.first_difference(before).empty()) complain("step() changes nothing; are the parameters those of groups()?");
  copy_values(scene.parameters, before.parameters);
  for (auto& group : scene.optimizer->groups()) group.lr = 0;
  scene.train(3, 4);
  const auto changed = scene.first_difference(before);
  if (!changed.empty())
    complain("with lr 0 in groups() a step changes ", changed,
             ": read the lr of the group in each step, or no schedule has an effect");
}

void check_overflow(const OptimizerTest& test) {
  const Scene scene(test), skipping(test);
  constexpr int64_t kOverflow = 3;
  for (int64_t number = 0; number < 8; ++number) {
    scene.train(number, number + 1);
    give_gradients(skipping.parameters, number);
    if (number == kOverflow) {
      skipping.parameters[0].value.mutable_grad().fill_(std::numeric_limits<float>::infinity());
      skipping.step_unless(at::ones({}));
      give_gradients(skipping.parameters, number);
    }
    skipping.step_unless(at::zeros({}));
    const auto changed = scene.first_difference(skipping);
    if (changed.empty()) continue;
    complain("after step ", number + 1, " ", changed, " is not what step() makes of it",
             number < kOverflow ? ""
                                : ", where step_unless(1) was called before: a step that overflowed must change "
                                  "neither the parameters nor what the optimizer remembers");
  }
}

// The resumed optimizer may have made steps on trial.
void check_resumed(const OptimizerTest& test, int64_t interruption, int64_t trial) {
  const auto end = std::max(test.steps, interruption + 3);
  const Scene scene(test), resumed(test);
  resumed.train(0, trial);
  scene.train(0, interruption);
  copy_values(scene.parameters, resumed.parameters);
  resumed.load(scene.state());
  scene.train(interruption, end);
  resumed.train(interruption, end);
  const auto changed = scene.first_difference(resumed);
  if (changed.empty()) return;
  complain("resumed after step ", interruption, trial > 0 ? " by an optimizer that has made other steps" : "", ", ",
           changed, " is not what it is without interruption: state() must hold all that later steps depend on, and ",
           "load_state() take it in place of all that there was");
}

void check_refusal(const OptimizerTest& test) {
  const Scene scene(test);
  try {
    scene.optimizer->load_state({{"nobody.weight/what", at::zeros({3})}});
  } catch (const UserError&) {
    return;
  } catch (...) {
    complain("load_state() throws no UserError for an entry of a parameter that there is not, but: ", exception_text());
  }
  complain("load_state() takes an entry of a parameter that there is not: refuse it with a UserError that names it");
}

OptimizerState of_part(OptimizerState state, const StepPart& part) {
  std::erase_if(state, [&](const auto& entry) {
    return std::ranges::count(part.parameters, entry.first.substr(0, entry.first.rfind('/'))) == 0;
  });
  return state;
}

void check_part(const OptimizerTest& test, size_t number) {
  const auto half = test.steps / 2;
  const Scene whole(test), alone(test), resumed(test);
  const auto part = alone.optimizer->step_parts().at(number);
  whole.train(0, half);
  alone.train(0, half, &part);
  copy_values(alone.parameters, resumed.parameters);
  resumed.load(of_part(whole.state(), part));
  whole.train(half, test.steps);
  resumed.train(half, test.steps, &part);
  for (size_t i = 0; i < whole.parameters.size(); ++i) {
    const auto& [name, value] = whole.parameters[i];
    if (std::ranges::count(part.parameters, name) == 0 || at::equal(value, resumed.parameters[i].value)) continue;
    complain(name, " has other bits where only its part of step_parts() has gradients, and is resumed from its part ",
             "of state(): a part's step must depend on nothing else, not on the company of a kernel either");
  }
}

}  // namespace

std::string same_as(const OptimizerTest& test, const Reference& reference, double tolerance) {
  return problem_of([&] {
    const Scene ours(test);
    const auto theirs = given_parameters();
    std::vector<at::Tensor> tensors;
    for (const auto& parameter : theirs) tensors.push_back(parameter.value);
    const auto step_reference = reference(tensors);
    for (int64_t number = 0; number < test.steps; ++number) {
      ours.train(number, number + 1);
      give_gradients(theirs, number);
      step_reference();
      for (size_t i = 0; i < theirs.size(); ++i) compare(ours.parameters[i], theirs[i], number + 1, tolerance);
    }
  });
}

std::string steps(const OptimizerTest& test) {
  return problem_of([&] { check_steps(test); });
}

std::string skips_overflow(const OptimizerTest& test) {
  return problem_of([&] { check_overflow(test); });
}

std::string state_round_trip(const OptimizerTest& test) {
  return problem_of([&] {
    for (const int64_t interruption : {0, 1, 4, 7}) {  // "late" joins at step 5
      for (const int64_t trial : {0, 7}) check_resumed(test, interruption, trial);
    }
    check_refusal(test);
  });
}

std::string step_parts(const OptimizerTest& test) {
  return problem_of([&] {
    const auto parts = Scene(test).optimizer->step_parts();
    for (size_t i = 0; i < parts.size(); ++i) check_part(test, i);
  });
}

std::vector<std::string> all(const OptimizerTest& test) {
  return problems_of({{"steps", [&] { return steps(test); }},
                      {"skips_overflow", [&] { return skips_overflow(test); }},
                      {"state_round_trip", [&] { return state_round_trip(test); }},
                      {"step_parts", [&] { return step_parts(test); }}});
}

}  // namespace ddprun::check
