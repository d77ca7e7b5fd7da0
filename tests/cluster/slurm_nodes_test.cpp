// SPDX-License-Identifier: MIT
#include "cluster/slurm.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> hosts(const std::string& list) { return expand_hosts({"SLURM_STEP_NODELIST", list}); }
std::vector<int> counts(const std::string& list) { return expand_task_counts({"SLURM_TASKS_PER_NODE", list}); }

TEST(SlurmHosts, OneAndSeveral) {
  EXPECT_THAT(hosts("node1"), ElementsAre("node1"));
  EXPECT_THAT(hosts("a,b.site.org,c-1"), ElementsAre("a", "b.site.org", "c-1"));
}

TEST(SlurmHosts, RangesKeepTheirZeros) {
  EXPECT_THAT(hosts("n[001-003,7]"), ElementsAre("n001", "n002", "n003", "n7"));
  EXPECT_THAT(hosts("n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(hosts("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
}

TEST(SlurmHosts, TheLastBracketRunsFastest) {
  EXPECT_THAT(hosts("n7,gpu-a[1-2]-[1-2]"), ElementsAre("n7", "gpu-a1-1", "gpu-a1-2", "gpu-a2-1", "gpu-a2-2"));
  EXPECT_THAT(hosts("r[1,3]n[2]-ib"), ElementsAre("r1n2-ib", "r3n2-ib"));
}

TEST(SlurmHosts, MalformedListsAreRefused) {
  for (const auto* list : {"", ",a", "a,", "a,,b", "n[1", "n1]", "n[]", "n[1-]", "n[-1]", "n[2-1]", "n[a-b]", "n[1,,2]",
                           "n[[1]]", "n]1[", "n[1-2-3]", "n[1 -2]", "n[0-99999999999]"}) {
    EXPECT_THROW(hosts(list), UserError) << list;
  }
}

TEST(SlurmHosts, AListCannotFillTheMemory) {
  EXPECT_THROW(hosts("n[0-999999999]"), UserError);
  EXPECT_THROW(hosts("n[0-999][0-999][0-999]"), UserError);
  EXPECT_EQ(hosts("n[0-65535]").size(), 65536);
  EXPECT_THROW(hosts(std::string(100'000, 'n') + "[0-65535]"), UserError);
}

TEST(SlurmTaskCounts, Expand) {
  EXPECT_THAT(counts("4"), ElementsAre(4));
  EXPECT_THAT(counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(counts("1,2(x2)"), ElementsAre(1, 2, 2));
}

TEST(SlurmTaskCounts, MalformedListsAreRefused) {
  for (const auto* list :
       {"", "2(x", "2(x3", "2(3)", "(x3)", "2(x3)1", "two", "2(x-1)", "2(x999999999)", "2,,3", "2[1]"}) {
    EXPECT_THROW(counts(list), UserError) << list;
  }
}

}  // namespace
}  // namespace ddprun
