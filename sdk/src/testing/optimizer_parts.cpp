// SPDX-License-Identifier: MIT
// Checks that parts of an optimizer's step can be computed apart from each other.
#include "optimizer_scene.h"
#include "problem.h"

#include <ddprun/testing/optimizer.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

namespace ddprun::check {
namespace {

void check_complete(const std::vector<StepPart>& parts, const Parameters& parameters) {
  std::set<std::string> missing;
  for (const auto& parameter : parameters) missing.insert(parameter.name);
  for (const auto& part : parts) {
    for (const auto& name : part.parameters) {
      if (missing.erase(name) == 0) complain("step_parts() has ", name, " twice, or no parameter has that name");
    }
  }
  if (!missing.empty()) complain("step_parts() lacks ", *missing.begin(), ": each parameter belongs to a part");
}

bool is_in(const StepPart& part, const std::string& name) { return std::ranges::count(part.parameters, name) > 0; }

// Does the steps of a part alone.
void train_part(Optimizer& optimizer, const StepPart& part, const Parameters& parameters, int64_t from, int64_t to) {
  const at::NoGradGuard no_gradients;
  for (int64_t number = from; number < to; ++number) {
    give_gradients(parameters, number);
    for (const auto& [name, value] : parameters) {
      if (!is_in(part, name)) value.mutable_grad().reset();
    }
    step(optimizer);
  }
}

void compare(const StepPart& part, const Parameters& whole, const Parameters& alone, const std::string& when) {
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!is_in(part, whole[i].name) || at::equal(whole[i].value, alone[i].value)) continue;
    complain(whole[i].name, " has other bits", when, " where only its part of step_parts() has gradients: ",
             "a part's step must depend on nothing else, not on the company of a kernel either");
  }
}

OptimizerState of_part(const OptimizerState& state, const StepPart& part) {
  OptimizerState own;
  for (const auto& [entry, tensor] : state) {
    if (is_in(part, entry.substr(0, entry.rfind('/')))) own[entry] = tensor.clone(at::MemoryFormat::Contiguous);
  }
  return own;
}

void check_part(const OptimizerTest& test, size_t number, int64_t interruption) {
  const auto whole = given_parameters(), alone = given_parameters();
  const auto all = started(test, whole), one = started(test, alone);
  const auto part = one->step_parts().at(number);
  train(*all, whole, 0, interruption);
  train_part(*one, part, alone, 0, interruption);
  compare(part, whole, alone, "");
  const auto state = of_part(in_hook("state()", [&] { return all->state(); }), part);
  const auto resumed = started(test, alone);
  in_hook("load_state()", [&] { resumed->load_state(state); });
  train(*all, whole, interruption, test.steps);
  train_part(*resumed, part, alone, interruption, test.steps);
  compare(part, whole, alone, " after its part of the state was loaded, and");
}

}  // namespace

std::string step_parts(const OptimizerTest& test) {
  return problem_of([&] {
    const auto parameters = given_parameters();
    const auto parts = in_hook("step_parts()", [&] { return started(test, parameters)->step_parts(); });
    if (parts.empty()) return;
    check_complete(parts, parameters);
    for (size_t i = 0; i < parts.size(); ++i) check_part(test, i, std::min<int64_t>(7, test.steps));
  });
}

}  // namespace ddprun::check
