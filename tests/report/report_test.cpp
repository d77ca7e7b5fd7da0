// SPDX-License-Identifier: MIT
#include "report/report.h"

#include "report/page.h"
#include "runs/config_lines.h"
#include "runs/run_files.h"
#include "runs/run_state.h"

#include <ddprun/error.h>

#include <algorithm>

namespace ddprun {
namespace {

class Reports : public RunFiles {};

TEST_F(Reports, AreWrittenForAFolderWithNothingInIt) {
  write_report(make_run("run"));
  EXPECT_NE(read("run/report.html").find(kReportPage.mark()), std::string::npos);
}

TEST_F(Reports, TakeThePlaceOfAReportAndOfNothingElse) {
  const auto run = make_run("run");
  write_report(run);
  write_report(run);
  write("mine.html", "<html>mine</html>");
  EXPECT_THROW(write_report({run}, folder_ / "mine.html"), UserError);
  EXPECT_EQ(read("mine.html"), "<html>mine</html>");
  EXPECT_THROW(write_report({run}, run), UserError);
  EXPECT_THROW(write_report({run}, folder_ / "nowhere/report.html"), UserError);
}

TEST_F(Reports, SayWhatIsBrokenInTheRun) {
  const auto run = make_run("run", "name: [\n");
  write("run/metrics.jsonl", "garbage\nmore\n");
  write("run/tables.jsonl",
        R"({"kind":"confusion","attempt":0,"split":"val","epoch":1,"step":3,"classes":["a"],"counts":[[1,2]]})"
        "\n");
  write("run/events.jsonl", "[]\n{}\n");
  write("run/environment.json", "{\"git\": ");
  const auto problems = recorded_run(run, 100)["problems"].get<std::vector<std::string>>();
  const auto reported = [&](const std::string& word) {
    return std::any_of(problems.begin(), problems.end(),
                       [&](const auto& problem) { return problem.find(word) != std::string::npos; });
  };
  for (const char* word : {"config.yaml", "metrics.jsonl:1", "the table confusion of step 3", "events.jsonl:1",
                           "environment.json is not a JSON object"})
    EXPECT_TRUE(reported(word)) << word;
  EXPECT_NO_THROW(write_report(run));
}

TEST_F(Reports, NameTheTrackersThatDidNotHaveAllOfTheRun) {
  const auto run = make_run("run");
  const auto problems = [&](const std::string& unsent) {
    write("run/summary.json", R"({"status":"completed","unsent":)" + unsent + "}");
    return recorded_run(run, 100)["problems"].dump();
  };
  const auto reported = problems(R"({"wandb":{"problem":"the server is away","command":"tools/follow run"}})");
  EXPECT_NE(reported.find("wandb did not have all of the run at its end: the server is away"), std::string::npos)
      << reported;
  EXPECT_NE(reported.find("send the rest with: tools/follow run"), std::string::npos) << reported;
  for (const auto* damaged : {"7", "[]", R"({"wandb":7})", R"({"wandb":{"problem":[]}})"})
    EXPECT_NO_THROW(problems(damaged)) << damaged;
}

TEST_F(Reports, LeaveOutJsonThatNestsDeeply) {
  const auto run = make_run("run");
  const auto deep = std::string(200'000, '[') + std::string(200'000, ']');
  write("run/summary.json", R"({"status":"completed","metrics":)" + deep + "}");
  write("run/environment.json", R"({"git":)" + deep + "}");
  write("run/tables.jsonl", R"({"kind":"predictions","step":3,"rows":)" + deep + "}\n");
  write_report(run);
  EXPECT_EQ(recorded_run(run, 100)["environment"], nullptr);
  EXPECT_EQ(recorded_run(run, 100)["account"], "");
}

TEST_F(Reports, HoldEpochsAndTimesFromTheRunsStart) {
  const auto run = make_run("run");
  write("run/metrics.jsonl",
        R"({"time":1100.5,"attempt":0,"split":"train","epoch":1,"step":10,"loss":1})"
        "\n"
        R"({"time":1200,"attempt":0,"split":"train","epoch":2,"step":20,"loss":null,"nonfinite":["loss"]})"
        "\n");
  write("run/events.jsonl", R"({"time":1000,"attempt":0,"kind":"attempt","text":"1 node"})"
                            "\n");
  const auto shown = recorded_run(run, 100);
  EXPECT_EQ(shown["steps_per_epoch"], 10);
  EXPECT_EQ(shown["curves"][0]["points"]["time"], nlohmann::json({100.5, 200}));
  EXPECT_EQ(shown["curves"][0]["points"]["value"], nlohmann::json({1, nullptr}));
  EXPECT_EQ(shown["curves"][0]["nonfinite"], 1);
}

TEST_F(Reports, ListCheckpointsWithoutLeftovers) {
  write("checkpoints/step_00000020/model.safetensors", "1234");
  write("checkpoints/step_00000100/model.safetensors", "12");
  write("checkpoints/step_00000100/manifest.json", "{}");
  write("checkpoints/step_00000030.tmp/model.safetensors", "1");
  std::filesystem::create_symlink("step_00000100", folder_ / "checkpoints/last");
  const auto checkpoints = list_checkpoints(folder_);
  ASSERT_EQ(checkpoints.size(), 2U);
  EXPECT_EQ(checkpoints[0].step, 20);
  EXPECT_EQ(checkpoints[1].bytes, 4U);
  EXPECT_TRUE(checkpoints[1].last);
  EXPECT_FALSE(checkpoints[1].best);
}

TEST_F(Reports, SayLinesOfTheConfigurationFromTheirOrigins) {
  const auto lines = read_config_lines(
      write("config.yaml", "a: \"x # y\\\" # z\"  # made.yaml:3:1\nb:\n  - c#d  # command line: b=[\"#\"]\n"));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].text, "a: \"x # y\\\" # z\"");
  EXPECT_EQ(lines[0].origin, "made.yaml:3:1");
  EXPECT_EQ(lines[1].origin, "");
  EXPECT_EQ(lines[2].text, "  - c#d");
  EXPECT_EQ(lines[2].origin, "command line: b=[\"#\"]");
}

TEST_F(Reports, CompareSingleValuesOfConfigurations) {
  std::vector<std::string> problems;
  const auto config =
      read_config(write("config.yaml", "a:\n  b: 1\n  c: [2, 3]\nd:\n  - e: 4\n    f: null\n"), problems);
  ASSERT_TRUE(config);
  EXPECT_EQ(single_values(*config), (std::vector<std::pair<std::string, std::string>>{
                                        {"a.b", "1"}, {"a.c", "[2, 3]"}, {"d[0].e", "4"}, {"d[0].f", "null"}}));
  EXPECT_EQ(value_at(*config, {"a", "b"}, ""), "1");
  EXPECT_EQ(value_at(*config, {"a", "c"}, "none"), "none");
}

}  // namespace
}  // namespace ddprun
