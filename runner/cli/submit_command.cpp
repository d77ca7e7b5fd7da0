// SPDX-License-Identifier: MIT
// `ddprun submit`: submits an experiment as a job of Slurm.
#include "base/log.h"
#include "base/on_demand.h"
#include "base/program.h"
#include "base/run_files.h"
#include "cli/commands.h"
#include "config/config_files.h"
#include "launch/worker_process.h"
#include "submit/submission.h"

#include <ddprun/error.h>

#include <fstream>
#include <iostream>

namespace ddprun {
namespace {

void write_new(const std::string& path, const std::string& text) {
  NewFile file(path);
  std::ofstream stream(file.temporary());
  stream << text << std::flush;
  if (!stream) throw UserError("--out " + path + " cannot be written");
  file.keep();
}

void require_program(const std::string& name) {
  if (!has_program(name))
    throw UserError("there is no program " + name + " on PATH: submit where it is, or write the job with --dry-run");
}

// Passes the text to a program, and its answer to the user.
int hand_over(const std::string& program, const std::string& text) {
  const auto end = run_program({program}, {.input = text});
  if (end.exit_code == 0) {
    std::cout << end.output;
    return kExitDone;
  }
  log::error(program + ": " + end.output);
  return kExitFailed;
}

void make_output_folder(const Experiment& experiment) {
  std::error_code error;
  const auto folder = slurm_output_folder(experiment);
  std::filesystem::create_directories(folder, error);
  if (error) throw UserError("cannot make " + folder + ": " + error.message());
}

}  // namespace

int submit(const Arguments& arguments) {
  if (!arguments.slurm) throw UserError("submit needs --slurm; for Kubernetes docs/launching.md has a manifest");
  const auto checked = check_experiment(
      {.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()});
  const auto& experiment = checked.experiment;
  if (experiment.resources.gpus > 0) require_parts({kCudaBackend});  // the job's machines may have no compiler
  if (!arguments.dry_run) require_program("sbatch");
  const Submission submission{
      .program = own_program().string(), .experiment = arguments.target, .overrides = arguments.overrides};
  const auto text = slurm_script(experiment, submission);
  if (!arguments.out.empty()) {
    write_new(arguments.out, text);
  } else if (arguments.dry_run) {
    std::cout << text;
  }
  if (arguments.dry_run) return kExitDone;
  make_output_folder(experiment);
  return hand_over("sbatch", text);
}

}  // namespace ddprun
