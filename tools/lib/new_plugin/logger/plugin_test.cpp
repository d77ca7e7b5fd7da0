#include <ddprun/logger.h>
#include <ddprun/testing.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

namespace {

namespace check = ddprun::check;

// Shows the built plugin a run of so many attempts in one folder, each with an evaluation; returns what is written.
std::string table_of(int64_t attempts, const std::string& metric, double value) {
  const std::filesystem::path folder = testing::TempDir() + "@name@_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (int64_t attempt = 0; attempt < attempts; ++attempt) {
    const auto logger = check::logger_plugin(DDPRUN_PLUGIN)();
    logger->start({.name = "my run", .run_dir = folder, .attempt = attempt});
    ddprun::MetricRow row{.split = "val", .epoch = 1, .step = 10 * (attempt + 1), .values = {{metric, value}}};
    logger->metrics(row);
    row = {.split = "none", .values = {{"none", -1}}};  // it is gone when the method returns
    logger->flush();
    if (attempt + 1 == attempts) logger->finish({.status = "completed", .stop_reason = "all is done"});
  }
  std::ifstream file(folder / "@name@.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string kHead = "# my run\n\n| split | epoch | step | metric | value |\n|---|---|---|---|---|\n";
const std::string kEnd = "\ncompleted: all is done\n";

TEST(@class@, HasARowForEachMetricOfAnEvaluation) {
  EXPECT_EQ(table_of(1, "loss", 0.25), kHead + "| val | 1 | 10 | loss | 0.25 |\n" + kEnd);
}

TEST(@class@, GoesOnInTheFolderOfARunThatIsResumed) {
  EXPECT_EQ(table_of(2, "loss", 0.5), kHead + "| val | 1 | 10 | loss | 0.5 |\n| val | 1 | 20 | loss | 0.5 |\n" + kEnd);
}

TEST(@class@, TakesNumbersAndNamesOfAnyKind) {
  EXPECT_EQ(table_of(1, "a|b\nc\xff", std::nan("")), kHead + "| val | 1 | 10 | a b c\xff | nan |\n" + kEnd);
}

TEST(@class@, SaysWhichOptionIsWrong) {
  EXPECT_EQ(check::option_problems(DDPRUN_PLUGIN, {{"files", "a.md"}}),
            "logger.files: unknown key; did you mean file? known: file");
}

}  // namespace
