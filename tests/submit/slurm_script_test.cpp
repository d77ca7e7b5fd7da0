// SPDX-License-Identifier: MIT
#include "base/program.h"
#include "submit/submission.h"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

// Four GPUs on each of two nodes.
Experiment large() {
  Experiment experiment;
  experiment.name = "mnist";
  experiment.resources = {.nodes = 2,
                          .gpus = 4,
                          .cpus_per_worker = 8,
                          .memory = "64G",
                          .seconds = 36 * 3600 + 90,
                          .slurm = {"--partition=accel", "--account=a project"}};
  return experiment;
}

Submission submission() {
  return {.program = "/opt/ddprun/bin/ddprun",
          .experiment = "experiments/mnist.yaml",
          .overrides = {"trainer.max_epochs=3", "model.note=it's $HOME"}};
}

TEST(SlurmScript, AsksForWhatTheExperimentNeeds) {
  EXPECT_EQ(slurm_script(large(), submission()), R"(#!/bin/bash
#SBATCH --job-name=mnist
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --mem=64G
#SBATCH --time=1-12:01:30
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=outputs/mnist/slurm-%j.out
#SBATCH --partition=accel
#SBATCH --account='a project'
# Written by ddprun submit. By hand: mkdir -p outputs/mnist; sbatch THIS_FILE

export DDPRUN_TOKEN=${DDPRUN_TOKEN:-$(od -An -vtx1 -N32 /dev/urandom | tr -d ' \n')}
srun --cpus-per-task=32 /opt/ddprun/bin/ddprun experiments/mnist.yaml trainer.max_epochs=3 'model.note=it'\''s $HOME'
)");
}

TEST(SlurmScript, LeavesToTheSiteWhatIsNotSaid) {
  Experiment experiment;
  experiment.name = "small";
  EXPECT_EQ(slurm_script(experiment, {.program = "ddprun", .experiment = "small.yaml"}), R"(#!/bin/bash
#SBATCH --job-name=small
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=outputs/small/slurm-%j.out
# Written by ddprun submit. By hand: mkdir -p outputs/small; sbatch THIS_FILE

srun ddprun small.yaml
)");
}

TEST(SlurmScript, RunsInAContainerAndRequeuesOutsideOfIt) {
  auto experiment = large();
  experiment.resources.container = "ddprun image.sif";
  experiment.launch.requeue = true;
  EXPECT_THAT(slurm_script(experiment, {.program = "/home/me/ddprun", .experiment = "e.yaml"}), EndsWith(R"(
srun --cpus-per-task=32 apptainer exec --nv 'ddprun image.sif' ddprun e.yaml launch.requeue=false
code=$?
if [ "$code" -eq 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
)"));
}

TEST(SlurmScript, RunsTheSitesLinesFirst) {
  Experiment experiment;
  experiment.name = "small";
  experiment.resources.setup = {"module load CUDA", "export NCCL_SOCKET_IFNAME=hsn"};
  EXPECT_THAT(slurm_script(experiment, {.program = "ddprun", .experiment = "small.yaml"}), EndsWith(R"SH(

trap 'code=$?; echo "ddprun: resources.setup: failed with $code: $BASH_COMMAND" >&2; exit 1' ERR
module load CUDA
export NCCL_SOCKET_IFNAME=hsn
trap - ERR
srun ddprun small.yaml
)SH"));
}

TEST(SlurmScript, CountsTheCpusOfAllWorkersOfANode) {
  auto experiment = large();
  experiment.launch.workers = 2;
  EXPECT_THAT(slurm_script(experiment, submission()), HasSubstr("--cpus-per-task=16\n"));
  experiment.trainer.strategy = Strategy::kDp;
  EXPECT_THAT(slurm_script(experiment, submission()), HasSubstr("--cpus-per-task=8\n"));
  experiment.resources.cpus_per_node = 72;
  EXPECT_THAT(slurm_script(experiment, submission()), HasSubstr("--cpus-per-task=72\n"));
}

TEST(SlurmScript, TakesTheNodesOfTheLaunchWhereTheResourcesSayNone) {
  Experiment experiment;
  experiment.name = "e";
  experiment.launch.min_nodes = experiment.launch.max_nodes = 3;
  EXPECT_THAT(slurm_script(experiment, submission()), HasSubstr("--nodes=3\n"));
}

TEST(SlurmScript, KeepsSlurmFromReadingPatternsInTheName) {
  auto experiment = large();
  experiment.name = "90 %j";
  EXPECT_THAT(slurm_script(experiment, submission()), HasSubstr("#SBATCH --output='outputs/90 %%j/slurm-%j.out'\n"));
}

// Every byte but the zero, which no argument can hold.
std::string all_bytes() {
  std::string text;
  for (int byte = 1; byte < 256; ++byte) text += static_cast<char>(byte);
  return text;
}

TEST(Quote, AShellReadsBackWhateverItWas) {
  for (const auto& text : std::vector<std::string>{"", "a b", "it's $HOME `ls` \"x\" \\ \n#;*", all_bytes()})
    EXPECT_EQ(run_program({"sh", "-c", "printf %s " + shell_word(text)}).output, text);
}

TEST(Quote, LeavesPlainWordsAlone) { EXPECT_EQ(shell_words({"srun", "a.b=1,2", "c d", ""}), "srun a.b=1,2 'c d' ''"); }

}  // namespace
}  // namespace ddprun
