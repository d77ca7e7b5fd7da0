// SPDX-License-Identifier: MIT
// `ddprun check EXPERIMENT`: reports every mistake that shows without training, also on a few samples if the data are
// present.
#include "agent/checked_experiment.h"
#include "agent/launch_choice.h"
#include "agent/sidecars.h"
#include "base/log.h"
#include "cli/commands.h"
#include "config/config_files.h"
#include "config/idle_settings.h"
#include "data/account.h"
#include "data/loader.h"
#include "launch/worker_process.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"
#include "step/train_step.h"
#include "weights/pretrained_weights.h"
#include "worker/sanity_check.h"

#include <ddprun/error.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <iostream>
#include <numeric>

namespace ddprun {
namespace {

// Prepares the dataset as a run does, which finds what the run would refuse and fetches nothing where all is there, and
// starts it. A failure names --no-data, since an experiment can be checked without its data.
void start_data(const CheckedExperiment& checked) try {
  prepare_data(checked);
  with_places(checked.places, [&] { in_plugin({"dataset", "start"}, [&] { checked.dataset->start(); }); });
} catch (const UserError& error) {  // with its place
  throw UserError(std::string(error.what()) + "\n`ddprun check --no-data` skips the data");
}

void warn_of_unused(const SanityCheck& check, const CheckedExperiment& checked, int64_t workers) {
  if (check.unused.empty() || checked.experiment.trainer.find_unused_parameters) return;
  const auto text = located("model: " + unused_text(check.unused), checked.places);
  if (workers > 1) throw UserError(text);
  log::warn(text);
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 < words.size() ? ", " : " and ") + words[i];
  return text;
}

// Checks what can be known of the weights to start from without the model, which waits for the data.
std::string check_weights_alone(const PretrainedConfig& pretrained) {
  if (pretrained.file.empty()) return "";
  return log::text("pretrained: ", read_pretrained(pretrained).size(), " tensors in ", pretrained.file,
                   "; whether they fit the model shows with the data.\n");
}

// What a worker will take, of all nodes' workers and their GPUs.
std::string memory_line(const SanityCheck& check, const Experiment& experiment, const LaunchChoice& launch) {
  if (!check.memory) return "Memory of a worker: not estimated: " + check.memory_problem + ".\n";
  const auto parts = launch.workers * std::max<int64_t>(1, launch.gpus) * experiment.launch.min_nodes;
  const auto samples = samples_at_once(experiment.trainer, parts);
  auto plan = *check.memory, recomputed = check.recomputed.value_or(plan);
  plan.keeps_gradients = recomputed.keeps_gradients = keeps_gradients(experiment.trainer, parts);
  const auto line = log::text("Memory of a worker, estimated: ", text_of(plan, samples),
                              experiment.checkpoint.async ? saving_text(plan) : "", ".\n");
  if (recomputed.total(samples) >= plan.total(samples)) return line;
  return line + log::text("With trainer.recompute=all: ", text_of(recomputed, samples), ".\n");
}

// Checks the data and returns what was checked, for the last line.
std::string check_data(const CheckedExperiment& checked, bool may_prepare, const LaunchChoice& launch) {
  if (!may_prepare && !in_plugin({"dataset", "is_prepared"}, [&] { return checked.dataset->is_prepared(); }))
    return check_weights_alone(checked.experiment.pretrained) +
           "Not checked: the data and the model's use of them; the data have to be downloaded or prepared first, by a "
           "run or `ddprun data`.\n";
  start_data(checked);
  const PluginHost host(plugin_search_path(checked.experiment.plugin_path));
  const auto check = run_sanity_check(checked.experiment, host, *checked.dataset,
                                      launch.workers * checked.experiment.launch.min_nodes);
  warn_of_unused(check, checked, launch.workers);
  for (const auto& warning : check.warnings) log::warn(warning);
  std::string text;
  if (const auto account = account_text(account_of(*checked.dataset)); !account.empty())
    text = "data: " + account + ".\n";
  for (const auto& line : check.pretrained) text += "pretrained: " + line + ".\n";
  if (!check.left_out.empty()) text += "checkpoint.only_trainable: " + check.left_out + ".\n";
  text += memory_line(check, checked.experiment, launch);
  return log::text(text, "Checked: some samples of ", listed(check.splits), ", and one step with ", check.step_samples,
                   " of them; `ddprun data` shows more of the data.\n");
}

// Describes the machine to check for: without a GPU here, one that has those that the experiment asks for, since this
// may be a login node.
struct Place {
  Machine machine;
  std::string not_checked;  // a line; empty if the machine is this one
};

Place place_of(const Experiment& experiment) {
  auto machine = this_machine();
  const auto need = machine.gpus > 0 ? "" : need_of_gpu(experiment.launch, experiment.trainer);
  if (need.empty()) return {.machine = std::move(machine)};
  const auto why = machine.driver_problem.empty() ? "" : "; their driver does not start: " + machine.driver_problem;
  return {.machine = {.gpus = std::max({int64_t{1}, experiment.launch.workers, experiment.resources.gpus}),
                      .cores = machine.cores},
          .not_checked = log::text("Not checked: what needs a GPU (", need, "): none is found here", why, ".\n")};
}

void log_warnings(const CheckedExperiment& checked, const LaunchChoice& launch) {
  const auto& experiment = checked.experiment;
  const auto small = small_parts_warning(experiment.trainer, launch.workers * experiment.launch.min_nodes);
  for (const auto& warning : {launch.warning, small})
    if (!warning.empty()) log::warn(located(warning, checked.places));
  for (const auto& warning : idle_settings(experiment)) log::warn(warning);
}

int show_findings(const Arguments& arguments, const CheckedExperiment& checked) {
  const auto& experiment = checked.experiment;
  require_sidecars(checked.sidecars);
  const auto place = place_of(experiment);
  const auto launch = choose_launch(experiment.launch, experiment.trainer, place.machine);
  const auto data_line = arguments.no_data ? check_weights_alone(experiment.pretrained) +
                                                 "Not checked: the data, and the model's use of them.\n"
                                           : check_data(checked, arguments.gradients || arguments.exact, launch);
  if (arguments.gradients && show_gradient_check(checked) != kExitDone) return kExitFailed;
  std::cout << arguments.target << ": no mistakes found. " << experiment.name << " trains " << experiment.model.plugin
            << " on " << experiment.dataset.plugin << " with " << experiment.optimizer.plugin << ", " << launch.workers
            << (launch.workers == 1 ? " worker" : " workers") << " on " << word_of(launch.device) << ", global batch "
            << experiment.trainer.global_batch_of(launch.workers * std::max<int64_t>(1, launch.gpus)) << ".\n"
            << data_line << place.not_checked;
  log_warnings(checked, launch);
  return arguments.exact ? show_exact_check(arguments, experiment.trainer.shards > 0) : kExitDone;
}

}  // namespace

int show_check(const Arguments& arguments) {
  const auto checked = check_experiment(
      {.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()});
  return with_places(checked.places, [&] { return show_findings(arguments, checked); });
}

// `ddprun check --gradients EXPERIMENT`: checks the gradients with the experiment's own model, data and loss, without
// training. The dataset has been started.

namespace {

constexpr int64_t kSamples = 8, kNumbers = 20;  // enough to find a wrong formula, few enough to be quick
constexpr int64_t kTexts = 1;                   // of many symbols, if these are predicted

Batch first_samples(const Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(std::min(kSamples, dataset.size(Split::kTrain))));
  if (indices.empty()) throw UserError("dataset: it has no training samples");
  std::iota(indices.begin(), indices.end(), 0);
  auto batch = in_plugin({"dataset", "get"}, [&] { return dataset.get(Split::kTrain, indices); });
  const bool are_texts = batch.input.scalar_type() == at::kLong && batch.input.dim() == 2;
  return are_texts ? part_of_batch(batch, {0, std::min(kTexts, batch.size())}) : batch;
}

std::vector<check::GradientFinding> findings_of(const CheckedExperiment& checked) {
  const auto& experiment = checked.experiment;
  const auto& dataset = *checked.dataset;
  const PluginHost host(plugin_search_path(experiment.plugin_path));
  torch::manual_seed(experiment.seed);
  const auto model = host.make_model(experiment.model);
  const auto spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); });
  in_plugin({"model", "prepare"}, [&] { model->prepare(spec); });
  const auto objective = watched_objective(experiment.objective, host, *model, spec);
  return check_gradients(*model, *objective, first_samples(dataset), kNumbers, experiment.seed);
}

}  // namespace

int show_gradient_check(const CheckedExperiment& checked) {
  const auto findings = findings_of(checked);
  std::cout << gradient_report(findings);
  return std::ranges::any_of(findings, &check::GradientFinding::wrong) ? kExitFailed : kExitDone;
}

}  // namespace ddprun
