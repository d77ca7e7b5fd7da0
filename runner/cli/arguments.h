// SPDX-License-Identifier: MIT
// The command line.
#pragma once

#include "cluster/setting.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ddprun {

struct Arguments {
  std::string command;  // "run", "check", ...: as in commands(), or "worker"
  std::string target;   // the experiment, run folder, folder of runs (list), plugin (plugins show) or word (keys)
  std::vector<std::string> runs;           // report: the run folders
  std::vector<std::string> overrides;      // key=value, +key=value, ++key=value, ~key
  std::string checkpoint = "last";         // export, evaluate, predict: best, last, or a checkpoint's name or path
  std::string out;                         // export, predict, submit, report, data: the file to make
  std::string format;                      // export: pt2, onnx, ...; empty: as the file's name says
  bool raw = false;                        // export: bytes in, probabilities out
  std::string split = "test";              // predict
  bool json = false;                       // evaluate, verify, list, env
  bool show_config = false;                // run: print it, and train nothing
  bool best_first = false;                 // list
  bool no_data = false;                    // check: do not look at them
  bool gradients = false;                  // check: compare backward with finite differences
  bool slurm = false, kubernetes = false;  // submit
  bool dry_run = false;                    // submit
  std::string kind;                        // plugins show: which kind, where a name has several
  bool check_plugins = false;              // plugins check
  std::vector<std::string> plugins;        // plugins check: names or files; none: all that are found
  std::string logger = "console";          // watch: what shows the run
  bool multirun = false;                   // run: one for each combination of values
  std::vector<std::string> build;          // run, check, data: source files of plugins
  LaunchFlags launch;                      // run, resume, env
  std::vector<std::string> words;          // the whole command line, for the record
};

// Thrown where the command line is answered at once (--help) or wrong; all is printed by then.
struct Exit {
  int code = 0;
};

Arguments parse_arguments(int argc, char** argv);

// Whether the command trains as long as it runs.
bool starts_training(const Arguments& arguments);

// Adds torchrun's flags to a command; what is given goes into `flags`, which must outlive the parsing.
void add_launch_flags(CLI::App& command, LaunchFlags& flags);

}  // namespace ddprun
