// SPDX-License-Identifier: MIT
#include "base/program.h"

#include <ddprun/error.h>

#include <gtest/gtest.h>

#include <csignal>

namespace ddprun {
namespace {

TEST(Program, GivesBackWhatItPrintsOnBothStreams) {
  const auto end = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.output, "out\nerr\n");
}

TEST(Program, ReadsLongInputToItsEnd) {
  const std::string text(1'000'000, 'x');
  EXPECT_EQ(run_program({"cat"}, {.input = text}).output, text);
}

TEST(Program, TellsTheSignalThatKilledIt) { EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}).exit_code, 137); }

// As the launcher, which takes its signals from a descriptor; bash keeps what it is started with.
TEST(Program, EndsInItsTimeWithAllThatItHasStartedThoughSignalsAreBlocked) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto end = run_program({"sh", "-c", "sleep 1000 & sleep 1000"}, {.seconds = 0.1});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_TRUE(end.cut);
  EXPECT_EQ(end.exit_code, 137);
}

TEST(Program, WhatPrintsWithoutEndIsCut) {
  const auto end = run_program({"yes"}, {.most_bytes = 1000});
  EXPECT_TRUE(end.cut);
  EXPECT_EQ(end.output.size(), 1000U);
}

TEST(Program, NamesTheOneThatIsNotThere) {
  EXPECT_FALSE(has_program("ddprun_another"));
  EXPECT_TRUE(has_program("sh"));
  try {
    run_program({"ddprun_another"});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "there is no program ddprun_another on PATH");
  }
}

}  // namespace
}  // namespace ddprun
