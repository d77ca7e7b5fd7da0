// SPDX-License-Identifier: MIT
// `ddprun evaluate RUN` and `ddprun predict RUN`: start workers as for training, in a temporary folder. The run's own
// folder is only read.
#include "agent/checked_experiment.h"
#include "agent/chosen_checkpoint.h"
#include "agent/launch_choice.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "base/run_files.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/predictions_page.h"
#include "config/config_files.h"
#include "config/feature_section.h"
#include "config/override.h"
#include "data/data_form.h"
#include "launch/launcher.h"
#include "launch/run_folder.h"
#include "report/report.h"
#include "worker/worker.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <glob.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A request to a trained run.
struct Inference {
  fs::path run;
  CheckpointInfo checkpoint;
  CheckedExperiment checked;
  LaunchChoice launch;
  bool without_data = false;  // the dataset has started as the run has noted its data
};

bool starts_without_data(const Inference& inference) {
  const auto noted = read_data_form(inference.run);
  return with_places(inference.checked.places,
                     [&] { return noted && start_as_noted(*inference.checked.dataset, *noted); });
}

// Warns of overrides of what only training reads.
// `makes_base`: the weights that the checkpoint leaves out are made again, for which `pretrained` is read.
void warn_of_unread(const Arguments& arguments, bool makes_base) {
  using Names = std::span<const std::string_view>;
  constexpr auto kOfTraining =
      std::to_array<std::string_view>({"name", "optimizer", "schedule", "early_stopping", "checkpoint", "pretrained",
                                       "callbacks", "loggers", "predictions", "resources", "run"});
  constexpr auto kReadOfTrainer = std::to_array<std::string_view>(
      {"eval_batch", "global_batch", "batch_per_worker", "prefetch_threads", "prefetch_batches", "precision",
       "memory_format", "fused_layers", "deterministic", "limit_val_batches", "limit_test_batches", "fast_dev_run"});
  const auto is_in = [](Names names, const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  Problems found_when_composed;
  for (const auto& text : arguments.overrides) {
    const auto change = parse_override(text, found_when_composed);
    if (!change) continue;
    const auto& path = change->path;
    const bool is_of_trainer = path.front() == "trainer" && path.size() > 1;
    const bool is_unread = is_of_trainer && !is_in(kReadOfTrainer, path[1]);
    if (is_of_trainer && !is_unread && arguments.command == "predict" && path[1].starts_with("limit_"))
      log::warn(text + ": has no effect: predict takes each sample of the split");
    const bool is_read = makes_base && path.front() == "pretrained";
    const bool is_of_training = is_in(kOfTraining, path.front()) || is_in(sections_of_features(), path.front());
    if (is_unread || (is_of_training && !is_read))
      log::warn(text + ": has no effect: only training reads " + path.front() + (is_unread ? "." + path[1] : ""));
  }
}

// As a run does; where the data are not as the run had them, a failure names the ways out.
void prepare_run_data(const Inference& inference, const Arguments& arguments) try {
  prepare_data(inference.checked);
} catch (const UserError& error) {  // with its place
  throw UserError(
      log::text(error.what(), "\nThis needs the run's data: if they have moved, dataset.KEY=PLACE says where to",
                arguments.command == "predict" ? "; `ddprun predict --input FILES` takes new files without them" : ""));
}

// `new_files` stand for the data, which need not be there then if the dataset can do without.
Inference prepare_inference(const Arguments& arguments, bool new_files = false) {
  Inference inference{.run = existing_run(arguments.target)};
  inference.checkpoint = choose_checkpoint(inference.run, arguments.checkpoint);
  inference.checked = check_experiment({.experiment = inference.run / "config.yaml",
                                        .overrides = arguments.overrides,
                                        .search_path = config_search_path(),
                                        .frozen = true});
  const auto& experiment = inference.checked.experiment;
  warn_of_unread(arguments, inference.checkpoint.left_out.has_value());
  warn_of_other_files(inference.run, experiment.config);
  auto trainer = experiment.trainer;
  trainer.strategy =
      Strategy::kDdp;  // the strategy of training does not matter: each worker has its own model and batches
  inference.launch =
      with_places(inference.checked.places, [&] { return choose_launch(experiment.launch, trainer, this_machine()); });
  require_backend(inference.launch);
  if (!inference.launch.warning.empty()) log::warn(located(inference.launch.warning, inference.checked.places));
  inference.without_data = new_files && starts_without_data(inference);
  if (!inference.without_data) prepare_run_data(inference, arguments);
  return inference;
}

// Returns why it failed, without the log's path: the log is gone by the time anyone reads this.
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

void collect_files(const std::string& pattern, std::vector<std::string>& files) {
  const std::string place = "--input " + pattern + ": ";
  const auto add = [&](const std::string& file) {
    if (fs::is_directory(file))
      throw UserError(place + file + " is a folder; name its files: --input '" + (fs::path(file) / "*.jpg").string() +
                      "'");
    files.push_back(file);
  };
  std::error_code ignored;  // what cannot be looked at may be a pattern
  if (fs::exists(pattern, ignored)) return add(pattern);
  ::glob_t found{};
  const std::unique_ptr<::glob_t, void (*)(::glob_t*)> kept(&found, ::globfree);
  const int problem = ::glob(pattern.c_str(), GLOB_ERR | GLOB_TILDE | GLOB_BRACE, nullptr, &found);
  const bool missing = problem == GLOB_NOMATCH || (problem == GLOB_ABORTED && errno == ENOENT);
  if (missing)
    throw UserError(place + "matches no file" +
                    (pattern.find('=') == pattern.npos ? "" : "; put key=value before --input"));
  if (problem != 0) throw UserError(place + "a folder cannot be read: " + std::strerror(errno));
  for (size_t i = 0; i < found.gl_pathc; ++i) add(found.gl_pathv[i]);
}

// Returns the files of the patterns in their order, those of one pattern sorted by name.
std::vector<std::string> input_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const auto& pattern : patterns) collect_files(pattern, files);
  return files;
}

std::vector<fs::path> used_files(const std::vector<std::string>& inputs, const Json& result) {
  const auto left_out = result.value("left_out", std::set<std::string>());
  std::vector<fs::path> used;
  for (const auto& file : inputs)
    if (!left_out.contains(file)) used.emplace_back(file);
  return used;
}

void warn_of_left_out(const Json& result) {
  constexpr size_t kMostShown = 20;
  const auto files = result.value("left_out", Json::array());
  if (files.empty()) return;
  std::string text = std::to_string(files.size()) + (files.size() == 1 ? " file was" : " files were") + " left out:";
  for (size_t i = 0; i < std::min(files.size(), kMostShown); ++i) text += "\n  " + files[i].get<std::string>();
  if (files.size() > kMostShown) text += "\n  and " + std::to_string(files.size() - kMostShown) + " more";
  log::warn(text);
}

// Ink on paper is to a network that has learned white digits on black as nothing it has seen.
void warn_of_opposite_brightness(const fs::path& run, const Json& result) {
  const auto noted = read_data_form(run);
  if (!noted || !noted->brightness) return;
  const auto warn = [&](const char* which, const char* those, const char* these) {
    const auto count = result.value(which, int64_t{0});
    if (count > 0)
      log::warn(log::text("the brightness of ", count, " of ", result.at("samples").get<int64_t>(),
                          " pictures is opposite to that of the ", "training pictures: these are ", those,
                          ", and the new ones ", these,
                          ", so their predictions mean little. Invert them first (`convert OLD.png -negate NEW.png`)"));
  };
  if (noted->brightness->all_dark()) warn("light", "light on dark", "dark on light");
  if (noted->brightness->all_light()) warn("dark", "dark on light", "light on dark");
}

struct Outcome {
  int exit_code = kExitFailed;
  Json result;  // rank 0's, if the exit code is 0
};

Outcome run_workers(const Inference& inference, LaunchPlan plan) {
  const PrivateFolder folder;
  plan.place.attempt.run_dir = folder.path();
  plan.place.attempt.checkpoint = inference.checkpoint.path;
  plan.place.started_at = steady_seconds();
  plan.config = to_yaml(inference.checked.experiment.config, /*origins=*/true);
  plan.stopping = "stopping";
  plan.plugins = inference.checked.places;
  const auto launched = launch_workers(plan);
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

void print_checkpoint(const Inference& inference) {
  std::cout << inference.checkpoint.path.string() << ": " << text_of(standing_of(inference.run, inference.checkpoint))
            << "\n";
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
  print_checkpoint(inference);
  for (const auto& [name, text] : rows) std::cout << padded(name, width + 2) << text << "\n";
}

}  // namespace

int evaluate(const Arguments& arguments) {
  const auto inference = prepare_inference(arguments);
  auto plan = node_plan(inference.launch);
  plan.place.task = Task::kEvaluate;
  const auto outcome = run_workers(inference, std::move(plan));
  if (outcome.exit_code != kExitDone) return outcome.exit_code;
  if (!arguments.json) {
    print_metrics(inference, outcome.result);
    return kExitDone;
  }
  const auto standing = standing_of(inference.run, inference.checkpoint);
  Json json{{"run", inference.run.string()},
            {"checkpoint", inference.checkpoint.path.string()},
            {"step", inference.checkpoint.step},
            {"best", standing.best},
            {"last", standing.last},
            {"weights", standing.averaged ? "ema" : "model"},
            {"world_size", inference.launch.workers}};
  json.update(outcome.result);
  std::cout << json.dump(2) << "\n";
  return kExitDone;
}

int predict(const Arguments& arguments) {
  if (arguments.out.empty() && arguments.page.empty())
    throw UserError(
        "predict: where to? --out FILE.csv writes a line for each sample, --html PAGE.html shows the worst");
  if (!arguments.page.empty()) require_page(kPredictionsPage, arguments.page);
  const PrivateFolder folder;
  NewFile file(arguments.out.empty() ? (folder.path() / "p.csv").string() : arguments.out);
  const auto inputs = input_files(arguments.inputs);
  const auto inference = prepare_inference(arguments, !inputs.empty());
  auto plan = node_plan(inference.launch);
  plan.place.task = Task::kPredict;
  plan.place.split = arguments.split;
  plan.place.out = file.temporary();
  plan.place.worst = arguments.page.empty() ? 0 : kMostPredicted;
  if (inference.without_data) plan.place.noted = fs::absolute(inference.run);
  if (!inputs.empty()) {
    plan.place.inputs = folder.path() / "inputs";
    write_inputs(plan.place.inputs, inputs);
  }
  const auto outcome = run_workers(inference, std::move(plan));
  if (outcome.exit_code != kExitDone) return outcome.exit_code;
  file.keep();
  const auto& result = outcome.result;
  const auto samples = result.at("samples").get<int64_t>();
  warn_of_left_out(result);
  if (!inputs.empty()) warn_of_opposite_brightness(inference.run, result);
  if (!arguments.page.empty())
    write_predictions_page({.run = inference.run,
                            .checked = inference.checked,
                            .started = inference.without_data,
                            .checkpoint = text_of(standing_of(inference.run, inference.checkpoint)),
                            .split = arguments.split,
                            .inputs = used_files(inputs, result),
                            .result = result},
                           arguments.page);
  std::cout << (arguments.out.empty() ? arguments.page : arguments.out) << ": " << samples << " samples of ";
  if (inputs.empty()) std::cout << "split " << arguments.split;
  if (!inputs.empty()) std::cout << inputs.size() << (inputs.size() == 1 ? " file" : " files");
  if (result.contains("correct")) std::cout << ", " << share(result.at("correct"), samples);
  std::cout << "\n";
  if (!arguments.out.empty() && !arguments.page.empty())
    std::cout << arguments.page << ": the worst of them, with their pictures if they are any\n";
  print_checkpoint(inference);
  return kExitDone;
}

}  // namespace ddprun
