// SPDX-License-Identifier: MIT
#include "submit/program.h"

#include "programs.h"

#include <ddprun/error.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Program, GivesBackWhatItPrintsOnBothStreams) {
  const auto end = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.output, "out\nerr\n");
}

TEST(Program, ReadsLongInputToItsEnd) {
  const std::string text(1'000'000, 'x');
  EXPECT_EQ(run_program({"cat"}, text).output, text);
}

TEST(Program, TellsTheSignalThatKilledIt) { EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}).exit_code, 137); }

TEST(Program, NamesTheOneThatIsNotThere) {
  const testing::Programs programs;
  EXPECT_FALSE(has_program("ddprun_no_such_program"));
  programs.add("ddprun_no_such_program", "");
  EXPECT_TRUE(has_program("ddprun_no_such_program"));
  try {
    run_program({"ddprun_another"});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "there is no program ddprun_another on PATH");
  }
}

}  // namespace
}  // namespace ddprun
