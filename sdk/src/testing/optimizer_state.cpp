// SPDX-License-Identifier: MIT
// Checks that an optimizer resumes from a checkpoint as if it had never stopped.
#include "optimizer_scene.h"
#include "problem.h"

#include <ddprun/error.h>
#include <ddprun/testing/optimizer.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>

namespace ddprun::check {
namespace {

OptimizerState saved(const Optimizer& optimizer) {
  auto state = in_hook("state()", [&] { return optimizer.state(); });
  for (auto& [entry, tensor] : state) {
    if (!tensor.defined()) complain("state() has an undefined tensor ", entry, ": leave it out");
    tensor = tensor.clone(at::MemoryFormat::Contiguous);  // as a checkpoint gives them back
  }
  return state;
}

void load(Optimizer& optimizer, const OptimizerState& state) {
  in_hook("load_state()", [&] { optimizer.load_state(state); });
}

void check_names(const OptimizerState& state, const Parameters& parameters) {
  for (const auto& [entry, tensor] : state) {
    const auto parameter = entry.substr(0, entry.rfind('/'));
    bool known = entry.find('/') != std::string::npos;
    if (known) known = std::ranges::any_of(parameters, [&](const auto& one) { return one.name == parameter; });
    if (!known)
      complain("state() names ", entry, ", expected <parameter>/<what>, as in ", parameters.front().name, "/momentum");
  }
}

void check_resumed(const OptimizerTest& test, int64_t interruption) {
  const auto end = std::max(test.steps, interruption + 3);
  const auto parameters = given_parameters();
  const auto optimizer = started(test, parameters);
  train(*optimizer, parameters, 0, interruption);
  const auto state = saved(*optimizer), given = saved(*optimizer);
  check_names(state, parameters);
  const auto resumed_parameters = copies(parameters);
  train(*optimizer, parameters, interruption, end);

  const auto resumed = started(test, resumed_parameters);
  load(*resumed, given);
  train(*resumed, resumed_parameters, interruption, end);
  const auto changed = first_difference(parameters, resumed_parameters);
  if (!changed.empty()) {
    complain("resumed after step ", interruption, ", ", changed,
             " is not what it is without interruption: state() must hold all that ",
             "later steps depend on, and load_state() take it");
  }
  for (const auto& [entry, tensor] : state) {
    if (at::equal(tensor, given.at(entry))) continue;
    complain("steps after load_state() change the ", entry, " that it was given: copy it (clone() or copy_())");
  }
}

// Checks that the loaded state replaces everything, as after a step on trial.
void check_replaced(const OptimizerTest& test) {
  const auto parameters = given_parameters();
  const auto optimizer = started(test, parameters);
  const auto blank = saved(*optimizer);
  train(*optimizer, parameters, 0, 7);
  load(*optimizer, blank);
  const auto fresh_parameters = copies(parameters);
  train(*optimizer, parameters, 0, 7);
  const auto fresh = started(test, fresh_parameters);
  train(*fresh, fresh_parameters, 0, 7);
  const auto changed = first_difference(parameters, fresh_parameters);
  if (!changed.empty()) {
    complain("given the state from before the first step, ", changed,
             " moves differently than at first: load_state() must forget what the ", "given state does not have");
  }
}

void check_refused(Optimizer& optimizer, const OptimizerState& state, const std::string& entry,
                   const std::string& flaw) {
  const auto before = saved(optimizer);
  std::string text;
  try {
    optimizer.load_state(state);
    complain("load_state() takes a state ", flaw, ": refuse it with a UserError that names the entry");
  } catch (const UserError& error) {
    text = error.what();
  } catch (const Problem&) {
    throw;
  } catch (...) {
    complain("load_state() throws no UserError for a state ", flaw, ", but: ", exception_text());
  }
  if (text.find(entry) == std::string::npos)
    complain("load_state() refuses a state ", flaw, ", but does not name ", entry, ": ", text);
  const auto after = saved(optimizer);
  for (const auto& [name, tensor] : before) {
    const auto found = after.find(name);
    if (found != after.end() && at::equal(tensor, found->second)) continue;
    complain("load_state() refuses a state ", flaw, ", but has changed ", name,
             ": check all of it before anything is changed");
  }
}

void check_refusals(const OptimizerTest& test) {
  const auto parameters = given_parameters();
  const auto optimizer = started(test, parameters);
  train(*optimizer, parameters, 0, 2);
  const auto good = saved(*optimizer);
  auto unknown = good;
  unknown["nobody.weight/what"] = at::zeros({3});
  check_refused(*optimizer, unknown, "nobody.weight/what", "with an entry of a parameter that it does not have");
  if (good.empty()) return;
  auto larger = good;
  const auto last = std::prev(larger.end())->first;
  larger[last] = at::zeros({3, 1, 4});
  check_refused(*optimizer, larger, last, "with " + last + " of another shape");
}

}  // namespace

std::string state_round_trip(const OptimizerTest& test) {
  return problem_of([&] {
    for (const int64_t interruption : {0, 1, 4, 7}) check_resumed(test, interruption);  // "late" joins at step 5
    check_replaced(test);
    check_refusals(test);
  });
}

}  // namespace ddprun::check
