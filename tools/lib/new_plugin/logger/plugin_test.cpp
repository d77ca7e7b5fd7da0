#include <ddprun/testing.h>
#include <gtest/gtest.h>

namespace {

namespace check = ddprun::check;

// The built plugin, as ddprun loads it.
const check::LoggerTest kLogger{.make = check::logger_plugin(DDPRUN_PLUGIN)};

// Each check returns what is wrong, and "" where nothing is.
TEST(@class@, TakesAllThatARunTells) { EXPECT_EQ(check::takes_a_run(kLogger), ""); }
TEST(@class@, TakesNumbersAndNamesOfAnyKind) { EXPECT_EQ(check::takes_odd_values(kLogger), ""); }
TEST(@class@, KeepsNoReferences) { EXPECT_EQ(check::keeps_no_references(kLogger), ""); }

TEST(@class@, SaysWhichOptionIsWrong) {
  EXPECT_EQ(check::option_problems(DDPRUN_PLUGIN, {{"files", "a.md"}}),
            "logger.files: unknown key; did you mean file? known: file");
}

}  // namespace
