// SPDX-License-Identifier: MIT
// Parses the command line.
#pragma once

#include "cluster/placement.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ddprun {

struct Arguments {
  std::string command;  // a name in commands(), "worker" or "complete"
  std::string
      target;  // the experiment, run folder, folder of runs (list) or data (init), plugin (plugins show) or word (keys)
  std::vector<std::string> runs;       // report, diff: the run folders; docs: a page or words
  std::vector<std::string> overrides;  // key=value, +key=value, ++key=value, ~key
  std::string checkpoint = "last";     // export, evaluate, predict: best, last, or a checkpoint's name or path
  std::string out;                     // export, predict, submit, report, data, schema, init, replay: the file
  std::string format;                  // export: pt2, onnx, ...; empty: by the file's extension
  bool raw = false;                    // export: bytes in, probabilities out
  bool only_trainable = false;         // export: without the weights that never train
  bool force = false;                  // export: replace a file of that name
  std::string split = "test";          // predict
  std::vector<std::string> inputs;     // predict: new files, or patterns of their names
  std::string target_column, task;     // init: of a table; empty: guessed
  std::string input_columns;           // init: of a table, separated by commas; empty: all others
  bool drop_missing = false;           // init: leave out a table's rows with missing values
  bool json = false;                   // evaluate, verify, list, report, env
  std::string rows;                    // report: "metrics", or the kind of tables that --json has too
  bool show_config = false;            // run: print the experiment and do not train
  bool best_first = false;             // list
  bool no_data = false;                // check: skip the data
  bool gradients = false;              // check: compare backward with finite differences
  bool exact = false;                  // check: compare a few steps on one worker and on two
  bool slurm = false;                  // submit
  bool dry_run = false;                // submit
  std::string group;                   // schema: the group whose files it describes; empty: experiments
  std::string kind;                    // plugins show: the kind, if several plugins have the name
  bool check_plugins = false;          // plugins check
  std::vector<std::string> plugins;    // plugins check: names or files; empty: all found
  double from = 1e-7, to = 10;         // find-lr
  int64_t steps = 200;                 // find-lr
  int64_t step = 0, workers = 0;       // replay; 0 workers: as many as the run had
  std::vector<int64_t> without;        // replay: samples to leave out
  std::string page;                    // replay, predict: the HTML page; empty: NAME_step_N.html, none
  bool multirun = false;               // run: one for each combination of values
  std::vector<std::string> build;      // run, find-lr, check, data, schema: source files of plugins
  LaunchFlags launch;                  // run, find-lr, resume, env
  std::vector<std::string> words;      // the whole command line, kept in the run folder
};

// Thrown if the command line was answered at once (--help) or is wrong; everything has been printed by then.
struct Exit {
  int code = 0;
};

Arguments parse_arguments(int argc, char** argv);

// Returns whether the command starts this program again, as workers or as other commands.
bool starts_processes(const Arguments& arguments);

// Returns the parser, which fills in `arguments`; these must outlive it.
std::shared_ptr<CLI::App> command_line(Arguments& arguments);

// Returns whether the command trains as long as it runs.
bool starts_training(const Arguments& arguments);

// Adds torchrun's flags to a command; what is given goes into `flags`, which must outlive the parsing.
void add_launch_flags(CLI::App& command, LaunchFlags& flags);

}  // namespace ddprun
