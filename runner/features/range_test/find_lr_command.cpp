// SPDX-License-Identifier: MIT
// `ddprun find-lr EXPERIMENT`: trains it as a range test, in which the learning rate rises from step to step.
#include "base/log.h"
#include "cli/commands.h"
#include "config/config_files.h"
#include "config/experiment_reader.h"
#include "config/feature_section.h"

#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
namespace {

void require_range(const Arguments& arguments, const Experiment& experiment) {
  constexpr int64_t kFewest = 10;
  if (!(arguments.from > 0) || !(arguments.to > arguments.from))
    throw UserError(log::text("--from ", arguments.from, " --to ", arguments.to,
                              ": expected two learning rates above 0, the smaller one first"));
  if (arguments.steps < kFewest)
    throw UserError(log::text("--steps ", arguments.steps, ": expected at least ", kFewest));
  if (experiment.checkpoint.resume == Resume::kFrom)
    throw UserError("checkpoint.resume=" + experiment.checkpoint.resume_from +
                    ": a range test begins at step 0; to start from these weights, set pretrained.file");
}

std::vector<std::string_view> replaced_sections() {
  std::vector<std::string_view> names{"schedule",    "checkpoint", "early_stopping",
                                      "predictions", "callbacks",  "loggers"};
  std::ranges::copy(sections_of_features(), std::back_inserter(names));
  return names;
}

// What a range test sets besides, and what it has no use for: its steps are the command's, and it evaluates nothing.
constexpr auto kSet = std::to_array<std::string_view>(
    {"trainer.max_time=none", "trainer.fast_dev_run=false", "trainer.log_every=1", "trainer.eval_every=never",
     "trainer.sanity_batches=0", "trainer.ema_decay=0", "trainer.on_nonfinite=stop"});
constexpr auto kUnused =
    std::to_array<std::string_view>({"trainer.max_steps", "trainer.max_epochs", "trainer.eval_batch",
                                     "trainer.limit_val_batches", "trainer.limit_test_batches"});

// Returns whether the override changes a section that a range test replaces, or a key in it; it warns of one that has
// no effect then. How the lr is scaled is taken over.
bool is_replaced(std::string_view override) {
  const auto key = override.substr(std::min(override.find_first_not_of("+~"), override.size()));
  const auto section = key.substr(0, key.find_first_of(".[="));
  const auto name = key.substr(0, key.find('='));
  const auto is_set = [&](std::string_view set) { return set.substr(0, set.find('=')) == name; };
  if (std::ranges::any_of(kSet, is_set) || std::ranges::find(kUnused, name) != kUnused.end())
    log::warn(log::text(override, ": has no effect: a range test has its own steps, and evaluates nothing"));
  const auto replaced = replaced_sections();
  if (std::ranges::find(replaced, section) == replaced.end()) return false;
  const bool is_kept = key.starts_with("schedule.lr_scaling=") || key.starts_with("schedule.reference_batch=");
  if (!is_kept && !override.starts_with('~'))
    log::warn(log::text(override, ": has no effect: a range test has its own ", section));
  return true;
}

// Returns the overrides that make a range test of the experiment. It keeps all that the loss of a step depends on:
// model, data, batches, optimizer, precision, and how optimizer.lr is scaled with the batch.
std::vector<std::string> range_test(const Arguments& arguments, const Experiment& experiment) {
  const auto& schedule = experiment.schedule;
  auto overrides = arguments.overrides;
  std::erase_if(overrides, is_replaced);
  for (const auto section : replaced_sections()) overrides.push_back(log::text("++", section, "=null"));
  std::string loggers;
  for (const std::string name : kDefaultLoggers) loggers += (loggers.empty() ? "" : ", ") + name;
  for (const auto& setting :
       {std::string("++callbacks=[]"), "++loggers=[" + loggers + "]", std::string("checkpoint.every=never")})
    overrides.push_back(setting);
  overrides.insert(overrides.end(), kSet.begin(), kSet.end());
  for (const auto* limit : {"trainer.max_steps=", "trainer.max_epochs="})
    overrides.push_back(log::text(limit, arguments.steps));
  overrides.push_back(log::text("++schedule={name: range_test, from: ", arguments.from, ", to: ", arguments.to,
                                ", lr_scaling: ", word_of(schedule.lr_scaling),
                                ", reference_batch: ", schedule.reference_batch, "}"));
  return overrides;
}

}  // namespace

int find_lr(const Arguments& arguments) {
  const auto experiment = load_experiment(
      {.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()});
  require_range(arguments, experiment);
  return train(arguments, range_test(arguments, experiment));
}

}  // namespace ddprun
