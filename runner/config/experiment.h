// SPDX-License-Identifier: MIT
// One experiment, read from its composed YAML: what every other part of the runner takes its settings from. Free of
// LibTorch and yaml-cpp, so that the launcher and the tests of the configuration stay cheap to build.
#pragma once

#include <ddprun/options.h>
#include <ddprun/value.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/compose.h"

namespace ddprun {

// A plugin that the experiment names, with the options for its constructor.
struct PluginChoice {
  std::string plugin;  // a name on the search path, or the path of a .so
  Value options;       // a map without the key `plugin`
  std::string path;    // "model", "loggers[1]": what error texts say
  Origin origin;       // of the name
};

struct TrainerConfig {
  int64_t max_epochs = 10;
  int64_t max_steps = 0;      // 0: no limit but max_epochs
  int64_t global_batch = 64;  // samples per optimizer step, all ranks together
  int64_t eval_batch = 0;     // samples per evaluation batch on one rank; 0: the global batch, at most 256
  int64_t eval_every = 1;     // epochs between evaluations
  int64_t log_every = 50;     // steps between training rows
  int64_t prefetch_threads = 1;
  int64_t prefetch_batches = 2;  // batches held ready, at most
  std::string precision = "fp32";
  bool deterministic = false;
  bool stop_on_nonfinite = true;
};

struct EarlyStoppingConfig {
  std::string monitor = "val/accuracy";
  bool maximize = true;
  int64_t patience = 3;  // evaluations without an improvement, or in a row at the target
  double min_delta = 0;
  std::optional<double> target;
};

// How often: exactly one of the three is set.
struct Interval {
  int64_t epochs = 0;
  int64_t steps = 0;
  double seconds = 0;
};

struct CheckpointConfig {
  std::optional<Interval> every = Interval{.epochs = 1};  // none: only at the end
  int64_t keep = 3;
  std::string monitor = "val/accuracy";  // what `best` follows
  bool maximize = true;
  std::string resume = "never";  // "never", "auto", or the path of a run or checkpoint
};

struct LaunchConfig {
  int64_t workers = 0;            // 0: auto, one per GPU, or one on the CPU
  std::string device = "auto";    // auto, cpu or cuda
  int64_t threads = 0;            // of each worker's kernels; 0: auto, cores / workers
  double timeout_seconds = 1800;  // of a collective
};

struct Experiment {
  std::string name;
  uint64_t seed = 0;
  PluginChoice model, dataset, optimizer;
  std::vector<PluginChoice> loggers;
  std::string objective = "cross_entropy";
  Value objective_options;
  TrainerConfig trainer;
  std::optional<EarlyStoppingConfig> early_stopping;
  CheckpointConfig checkpoint;
  LaunchConfig launch;
  std::filesystem::path run_dir;  // run.dir; empty: outputs/<name>/<time>
  std::vector<std::filesystem::path> plugin_path;
  Value config;  // the whole composed tree, to be frozen
};

// Reads a composed tree. All mistakes are appended to `problems`, one full line each; the result is only usable without
// any.
Experiment read_experiment(Value config, std::vector<std::string>& problems);

// compose() and read_experiment() in one, so that the mistakes of both are told at once: appended to `problems`, one
// full line each. Throws UserError with all of them where a file is missing or unreadable, so that there is nothing to
// go on with.
Experiment load_experiment(const ComposeInput& input, std::vector<std::string>& problems);

// The same, throwing UserError for any mistake.
Experiment load_experiment(const ComposeInput& input);

// One section of the file with its keys, as the help and the documentation list them.
struct SectionHelp {
  std::string name;  // "trainer"; empty for the keys of the root
  std::string help;
  std::vector<OptionDeclaration> keys;
};

// All keys that a plugin does not define, the root's first: from the declarations that read_experiment reads with.
std::vector<SectionHelp> experiment_keys();

}  // namespace ddprun
