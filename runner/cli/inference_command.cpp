// SPDX-License-Identifier: MIT
// `ddprun evaluate RUN` and `ddprun predict RUN`: workers as for training, in a temporary folder. The run's own is only
// read.
#include "agent/checked_experiment.h"
#include "agent/chosen_checkpoint.h"
#include "agent/launch_choice.h"
#include "base/clock.h"
#include "base/durable_file.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "base/program.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/new_file.h"
#include "launch/launcher.h"
#include "worker/worker.h"

#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A trained run with what is asked of it.
struct Inference {
  fs::path run;
  CheckpointInfo checkpoint;
  CheckedExperiment checked;
  LaunchChoice launch;
};

Inference make_inference(const Arguments& arguments) {
  Inference inference{.run = existing_run(arguments.target)};
  inference.checkpoint = choose_checkpoint(inference.run, arguments.checkpoint);
  inference.checked = check_experiment({.experiment = inference.run / "config.yaml",
                                        .overrides = arguments.overrides,
                                        .search_path = config_search_path(),
                                        .frozen = true});
  const auto& experiment = inference.checked.experiment;
  auto trainer = experiment.trainer;
  trainer.strategy =
      Strategy::kDdp;  // how it was trained has no meaning here: each worker has a model and batches of its own
  inference.launch = choose_launch(experiment.launch, trainer, this_machine());
  if (!inference.launch.warning.empty()) log::warn(inference.launch.warning);
  prepare_data(inference.checked);
  return inference;
}

// Why it failed, without the log's path: the log is gone by the time anybody reads it.
std::string cause(const std::string& report) {
  std::string text;
  for (size_t begin = 0; begin < report.size();) {
    const auto end = std::min(report.find('\n', begin), report.size());
    const auto line = report.substr(begin, end - begin);
    if (!line.starts_with("  log: ")) text += (text.empty() ? "" : "\n") + line;
    begin = end + 1;
  }
  return text;
}

struct Outcome {
  int exit_code = kExitFailed;
  Json result;  // of rank 0, where the exit code is 0
};

Outcome run_workers(const Inference& inference, std::vector<std::pair<std::string, std::string>> task) {
  const PrivateFolder folder;
  write_file_atomically(folder.path() / "config.yaml", to_yaml(inference.checked.experiment.config, /*origins=*/true));
  auto environment = launch_variables(inference.launch);
  environment.emplace_back("DDPRUN_CHECKPOINT", inference.checkpoint.path.string());
  for (auto& variable : task) environment.push_back(std::move(variable));
  const auto launched = launch_workers({.command = {own_program().string(), "worker"},
                                        .environment = environment,
                                        .run_dir = folder.path(),
                                        .workers = static_cast<int>(inference.launch.workers),
                                        .started_at = steady_seconds(),
                                        .stopping = "stopping",
                                        .plugins = plugin_places(inference.checked.experiment)});
  Outcome outcome{.exit_code = launched.exit_code};
  if (launched.exit_code == kExitDone) {
    outcome.result = Json::parse(std::ifstream(folder.path() / kInferenceResult));
  } else if (launched.stop_requested) {
    log::error("stopped; nothing is written");
  } else {
    log::error(cause(launched.report));
  }
  return outcome;
}

std::string share(int64_t correct, int64_t total) {
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.2f %%", 100.0 * static_cast<double>(correct) / static_cast<double>(total));
  return grouped(correct) + " of " + grouped(total) + " correct (" + percent + ")";
}

void print_metrics(const Inference& inference, const Json& result) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& [name, value] : result.at("metrics").items()) {
    char text[32] = "not finite";
    if (value.is_number()) std::snprintf(text, sizeof text, "%.6g", value.get<double>());
    rows.emplace_back(name, text);
  }
  for (const std::string split : {"val", "test"}) {
    if (result.contains(split + "_correct"))
      rows.emplace_back(split, share(result.at(split + "_correct"), result.at(split + "_total")));
  }
  size_t width = 0;
  for (const auto& [name, text] : rows) width = std::max(width, width_of(name));
  std::cout << inference.checkpoint.path.string() << "\n";
  for (const auto& [name, text] : rows) std::cout << padded(name, width + 2) << text << "\n";
}

}  // namespace

int evaluate(const Arguments& arguments) {
  const auto inference = make_inference(arguments);
  const auto outcome = run_workers(inference, {{"DDPRUN_TASK", "evaluate"}});
  if (outcome.exit_code != kExitDone) return outcome.exit_code;
  if (!arguments.json) {
    print_metrics(inference, outcome.result);
    return kExitDone;
  }
  Json json{{"run", inference.run.string()},
            {"checkpoint", inference.checkpoint.path.string()},
            {"step", inference.checkpoint.step},
            {"world_size", inference.launch.workers}};
  json.update(outcome.result);
  std::cout << json.dump(2) << "\n";
  return kExitDone;
}

int predict(const Arguments& arguments) {
  NewFile file(arguments.out);
  const auto inference = make_inference(arguments);
  const auto outcome = run_workers(
      inference,
      {{"DDPRUN_TASK", "predict"}, {"DDPRUN_SPLIT", arguments.split}, {"DDPRUN_OUT", file.temporary().string()}});
  if (outcome.exit_code != kExitDone) return outcome.exit_code;
  file.keep();
  const auto& result = outcome.result;
  const auto samples = result.at("samples").get<int64_t>();
  std::cout << arguments.out << ": " << samples << " samples of split " << arguments.split;
  if (result.contains("correct")) std::cout << ", " << share(result.at("correct"), samples);
  std::cout << "\n";
  return kExitDone;
}

}  // namespace ddprun
