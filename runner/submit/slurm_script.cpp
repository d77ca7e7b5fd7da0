// SPDX-License-Identifier: MIT
#include "submit/submission.h"

#include <cmath>
#include <cstdio>
#include <sstream>

namespace ddprun {
namespace {

constexpr int kSecondsToSave = 120;  // between the signal and the end of the job's time

std::string clock_text(double seconds) {
  const auto all = static_cast<int64_t>(std::ceil(seconds));
  char clock[16];
  std::snprintf(clock, sizeof clock, "%02d:%02d:%02d", static_cast<int>(all / 3600 % 24),
                static_cast<int>(all / 60 % 60), static_cast<int>(all % 60));
  return (all >= 86400 ? std::to_string(all / 86400) + "-" : "") + clock;
}

// sbatch replaces %j and the like.
std::string without_patterns(const std::string& text) {
  std::string escaped;
  for (const char letter : text) escaped += letter == '%' ? "%%" : std::string(1, letter);
  return escaped;
}

// Prints one directive per line; the option and its value are one word, quoted if necessary.
class Directives {
 public:
  void add(const std::string& option) { text_ << "#SBATCH " << shell_word(option) << "\n"; }
  void add(const std::string& name, const std::string& value) {
    text_ << "#SBATCH --" << name << "=" << shell_word(value) << "\n";
  }
  void add(const std::string& name, int64_t value) { add(name, std::to_string(value)); }

  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

std::string directives(const Experiment& experiment) {
  const auto& resources = experiment.resources;
  Directives lines;
  lines.add("job-name", experiment.name);
  lines.add("nodes", nodes_of(experiment));
  lines.add("ntasks-per-node", 1);
  if (resources.gpus > 0) lines.add("gpus-per-node", resources.gpus);
  if (const auto cpus = cpus_of_node(experiment); cpus > 0) lines.add("cpus-per-task", cpus);
  if (!resources.memory.empty()) lines.add("mem", resources.memory);
  if (resources.seconds > 0) lines.add("time", clock_text(resources.seconds));
  lines.add("signal", "USR1@" + std::to_string(kSecondsToSave));
  lines.add("--requeue");
  lines.add("open-mode", "append");
  lines.add("output", without_patterns(slurm_output_folder(experiment)) + "/slurm-%j.out");
  for (const auto& option : resources.slurm) {
    const auto equals = option.find('=');
    if (option.starts_with("--") && equals != std::string::npos) {
      lines.add(option.substr(2, equals - 2), option.substr(equals + 1));
    } else {
      lines.add(option);
    }
  }
  return lines.text();
}

std::string step(const Experiment& experiment, const Submission& submission) {
  const auto& resources = experiment.resources;
  std::vector<std::string> words{"srun"};
  // srun does not inherit it from sbatch.
  if (const auto cpus = cpus_of_node(experiment); cpus > 0) words.push_back("--cpus-per-task=" + std::to_string(cpus));
  if (resources.container.empty()) {
    words.push_back(submission.program);
  } else {
    words.insert(words.end(), {"apptainer", "exec"});
    if (resources.gpus > 0) words.emplace_back("--nv");
    words.insert(words.end(), {resources.container, "ddprun"});
  }
  words.push_back(submission.experiment);
  words.insert(words.end(), submission.overrides.begin(), submission.overrides.end());
  if (experiment.launch.requeue && !resources.container.empty()) words.emplace_back("launch.requeue=false");
  return shell_words(words) + "\n";
}

// The lines as they are. One that fails ends the job, which would otherwise train without what it was to load.
std::string setup_lines(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text =
      R"(trap 'code=$?; echo "ddprun: resources.setup: failed with $code: $BASH_COMMAND" >&2; exit 1' ERR)"
      "\n";
  for (const auto& line : lines) text += line + "\n";
  return text + "trap - ERR\n";
}

// The token is created when the job starts and passed on by srun: it is in no file and on no command line.
constexpr const char* kToken =
    "export DDPRUN_TOKEN=${DDPRUN_TOKEN:-$(od -An -vtx1 -N32 /dev/urandom | tr -d ' \\n')}\n";

// The script does what launch.requeue asks, because there is no scontrol in the container. A job that somebody cancels
// does not get this far.
constexpr const char* kRequeue = R"(code=$?
if [ "$code" -eq 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
)";

}  // namespace

std::string slurm_output_folder(const Experiment& experiment) { return "outputs/" + experiment.name; }

std::string slurm_script(const Experiment& experiment, const Submission& submission) {
  const bool requeues = experiment.launch.requeue && !experiment.resources.container.empty();
  std::string text = "#!/bin/bash\n" + directives(experiment);
  text += "# Written by ddprun submit. By hand: mkdir -p " + shell_word(slurm_output_folder(experiment)) +
          "; sbatch THIS_FILE\n\n";
  text += setup_lines(experiment.resources.setup);
  if (nodes_of(experiment) > 1) text += kToken;
  return text + step(experiment, submission) + (requeues ? kRequeue : "");
}

}  // namespace ddprun
