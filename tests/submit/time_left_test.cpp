// SPDX-License-Identifier: MIT
#include "programs.h"
#include "submit/requeue.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace ddprun {
namespace {

using testing::Programs;
using Variables = std::map<std::string, std::string>;

TEST(TimeLeft, IsReadAsSqueuePrintsIt) {
  EXPECT_EQ(parse_time_left("0:07\n"), 7);
  EXPECT_EQ(parse_time_left("59:07"), 59 * 60 + 7);
  EXPECT_EQ(parse_time_left("12:00:01"), 12 * 3600 + 1);
  EXPECT_EQ(parse_time_left("2-03:00:00\n"), (2 * 24 + 3) * 3600);
  for (const char* text : {"", "UNLIMITED", "INVALID", "NOT_SET", "1:2:3:4", "-0:07", "5"})
    EXPECT_EQ(parse_time_left(text), std::nullopt) << text;
}

TEST(TimeLeft, IsAskedOfSlurmForTheJobOrTheTaskOfAnArray) {
  const Programs programs;
  programs.add("squeue", "echo \"$*\" >> $log; echo 1:30:00");
  EXPECT_EQ(slurm_time_left(Environment(Variables{{"SLURM_JOB_ID", "7"}})), 5400);
  EXPECT_EQ(slurm_time_left(Environment(
                Variables{{"SLURM_JOB_ID", "9"}, {"SLURM_ARRAY_JOB_ID", "8"}, {"SLURM_ARRAY_TASK_ID", "1"}})),
            5400);
  EXPECT_EQ(programs.log(), "--noheader --jobs=7 --format=%L\n--noheader --jobs=8_1 --format=%L\n");
}

TEST(TimeLeft, IsUnknownOutsideOfSlurmAndWhereSlurmDoesNotAnswer) {
  const Programs programs;
  programs.add("squeue", "echo 1:30:00; exit 1");
  EXPECT_EQ(slurm_time_left(Environment()), std::nullopt);
  EXPECT_EQ(slurm_time_left(Environment(Variables{{"SLURM_JOB_ID", "7"}})), std::nullopt);
}

}  // namespace
}  // namespace ddprun
