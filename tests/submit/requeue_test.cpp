// SPDX-License-Identifier: MIT
#include "submit/requeue.h"

#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

#include <map>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

const Variables kJob{{"SLURM_JOB_ID", "7"}};
const Variables kTask{{"SLURM_JOB_ID", "14"}, {"SLURM_ARRAY_JOB_ID", "12"}, {"SLURM_ARRAY_TASK_ID", "3"}};

// Programs of the test's own are on PATH, in the place of Slurm's.
class SlurmJob : public FolderTest {
 protected:
  SlurmJob() {
    const char* path = std::getenv("PATH");
    old_path_ = path ? path : "";
    ::setenv("PATH", (folder_.string() + ":/usr/bin:/bin").c_str(), 1);
  }
  ~SlurmJob() override { ::setenv("PATH", old_path_.c_str(), 1); }

  // A shell script of this name, in which $log is a file to write to.
  void add(const std::string& name, const std::string& script) const {
    write(folder_ / name, "#!/bin/sh\nlog=" + (folder_ / "log").string() + "\n" + script + "\n");
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }

  // A scontrol that shows this state, and notes what it is asked for.
  void add_scontrol(const std::string& state, const std::string& requeue = "") const {
    add("scontrol", "if [ $1 = show ]; then echo 'JobId=7 JobState=" + state + " Reason=None'; exit; fi\n" +
                        "echo \"$*\" >> $log\n" + requeue);
  }

  std::string log() const { return read(folder_ / "log"); }

  std::string old_path_;
};

TEST_F(SlurmJob, IsNamedAndSoIsTheTaskOfAnArray) {
  add("scontrol", "");
  EXPECT_EQ(job_to_requeue(Environment(kJob)), "7");
  EXPECT_EQ(job_to_requeue(Environment(kTask)), "12_3");
  EXPECT_THAT(error_of([] { job_to_requeue(Environment()); }), HasSubstr("launch.requeue: this is not a job of Slurm"));
}

TEST_F(SlurmJob, IsRequeuedIfItIsRunning) {
  for (const char* state : {"COMPLETING", "CANCELLED", "RUNNING"}) {
    EXPECT_EQ(log(), "") << "before it is " << state;
    add_scontrol(state);
    requeue("7");
  }
  EXPECT_EQ(log(), "requeue 7\n");
}

TEST_F(SlurmJob, ThatSlurmDoesNotRequeueIsAnErrorInTheLog) {
  add_scontrol("RUNNING", "echo Only batch jobs >&2; exit 1");
  ::testing::internal::CaptureStderr();
  requeue("7");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("scontrol requeue 7: Only batch jobs"));
}

TEST_F(SlurmJob, HasAsMuchTimeLeftAsSqueueSays) {
  add("squeue", "echo \"$*\" >> $log; echo 1:30:00");
  EXPECT_EQ(slurm_time_left(Environment(kJob)), 5400);
  EXPECT_EQ(slurm_time_left(Environment(kTask)), 5400);
  EXPECT_EQ(log(), "--noheader --jobs=7 --format=%L\n--noheader --jobs=12_3 --format=%L\n");
  EXPECT_EQ(slurm_time_left(Environment()), std::nullopt) << "outside of Slurm";
  add("squeue", "echo 1:30:00; exit 1");
  EXPECT_EQ(slurm_time_left(Environment(kJob)), std::nullopt) << "Slurm does not answer";
}

TEST(TimeLeft, IsReadAsSqueuePrintsIt) {
  EXPECT_EQ(parse_time_left("0:07\n"), 7);
  EXPECT_EQ(parse_time_left("59:07"), 59 * 60 + 7);
  EXPECT_EQ(parse_time_left("12:00:01"), 12 * 3600 + 1);
  EXPECT_EQ(parse_time_left("2-03:00:00\n"), (2 * 24 + 3) * 3600);
  for (const char* text : {"", "UNLIMITED", "INVALID", "NOT_SET", "1:2:3:4", "-0:07", "5"})
    EXPECT_EQ(parse_time_left(text), std::nullopt) << text;
}

}  // namespace
}  // namespace ddprun
