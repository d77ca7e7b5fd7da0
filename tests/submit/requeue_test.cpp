// SPDX-License-Identifier: MIT
#include "submit/requeue.h"

#include "programs.h"

#include <ddprun/error.h>

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::Programs;

// A scontrol that shows this state, and notes what it is asked for.
void add_scontrol(const Programs& programs, const std::string& state, const std::string& requeue = "") {
  programs.add("scontrol", "if [ $1 = show ]; then echo 'JobId=7 JobState=" + state + " Reason=None'; exit; fi\n" +
                               "echo \"$*\" >> $log\n" + requeue);
}

std::string requeued_in(const std::string& state) {
  const Programs programs;
  add_scontrol(programs, state);
  requeue("7");
  return programs.log();
}

TEST(Requeue, NamesTheJobOrTheTaskOfAnArray) {
  const Programs programs;
  programs.add("scontrol", "");
  std::map<std::string, std::string> variables{{"SLURM_JOB_ID", "14"}};
  EXPECT_EQ(job_to_requeue(Environment(variables)), "14");
  variables["SLURM_ARRAY_JOB_ID"] = "12";
  variables["SLURM_ARRAY_TASK_ID"] = "3";
  EXPECT_EQ(job_to_requeue(Environment(variables)), "12_3");
}

TEST(Requeue, IsAMistakeOutsideOfSlurm) {
  try {
    job_to_requeue(Environment());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("launch.requeue: this is not a job of Slurm"), std::string::npos);
  }
}

TEST(Requeue, AsksSlurmForARunningJobAlone) {
  EXPECT_EQ(requeued_in("RUNNING"), "requeue 7\n");
  EXPECT_EQ(requeued_in("COMPLETING"), "");
  EXPECT_EQ(requeued_in("CANCELLED"), "");
}

TEST(Requeue, TellsARefusal) {
  const Programs programs;
  add_scontrol(programs, "RUNNING", "echo Only batch jobs >&2; exit 1");
  ::testing::internal::CaptureStderr();
  requeue("7");
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("scontrol requeue 7: Only batch jobs"), std::string::npos);
}

}  // namespace
}  // namespace ddprun
