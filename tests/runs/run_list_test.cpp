// SPDX-License-Identifier: MIT
#include "runs/run_list.h"

#include "runs/config_lines.h"
#include "runs/run_files.h"

#include <ddprun/error.h>

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace ddprun {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

ListedRun run(const std::string& label, const std::string& status, const std::string& metric, double best) {
  ListedRun listed{.label = label};
  listed.state.status = enum_of<RunStatus>(status).value();
  listed.state.best_name = metric;
  listed.state.best = best;
  listed.state.steps = 8600;
  listed.state.epochs = 10;
  listed.state.workers = 8;
  listed.state.started = 1000;
  listed.state.seconds = 3725;
  return listed;
}

class RunLists : public RunFiles {};

TEST_F(RunLists, FindRunsOnceAndTheNewestFirst) {
  for (const char* day : {"19", "21", "20"}) {
    make_run("mnist/run_" + std::string(day));
    write("mnist/run_" + std::string(day) + "/environment.json",
          R"({"time":"2026-11-)" + std::string(day) + R"(T12:00:00+0000"})");
  }
  make_run("sweep/lr/a");
  make_run("mnist/run_19/nested");
  std::filesystem::create_symlink("run_21", folder_ / "mnist/latest");
  write("notes.txt", "none");
  std::vector<std::string> labels;
  for (const auto& listed : list_runs(folder_)) labels.push_back(listed.label);
  EXPECT_EQ(labels, (std::vector<std::string>{"mnist/run_21", "mnist/run_20", "mnist/run_19", "sweep/lr/a"}));
  EXPECT_EQ(list_runs(folder_ / "mnist/run_20")[0].label, "run_20");
}

TEST_F(RunLists, RefuseWhatIsNoFolder) {
  EXPECT_THROW(list_runs(folder_ / "nowhere"), UserError);
  EXPECT_THROW(list_runs(write("file", "")), UserError);
  EXPECT_TRUE(list_runs(folder_).empty());
}

TEST_F(RunLists, HaveARunThatCannotBeReadBesideTheOthers) {
  make_run("good");
  make_run("piped");
  ::mkfifo((folder_ / "piped/summary.json").c_str(), 0600);
  make_run("led");
  std::filesystem::create_symlink(write("secret", "password"), folder_ / "led/overrides.txt");
  std::map<std::string, std::string> flaws;
  for (const auto& listed : list_runs(folder_)) flaws[listed.label] = listed.flaw;
  ASSERT_EQ(flaws.size(), 3U);
  EXPECT_EQ(flaws["good"], "");
  EXPECT_EQ(flaws["piped"], (folder_ / "piped/summary.json").string() + ": is a pipe, and a file was expected");
  EXPECT_NE(flaws["led"].find("overrides.txt: is a link"), std::string::npos) << flaws["led"];
  for (const auto& json : run_list_json(list_runs(folder_)))
    EXPECT_EQ(json["status"], json["run"] == "good" ? "interrupted" : "unreadable");
  EXPECT_EQ(run_list_json(list_runs(folder_)).dump().find("password"), std::string::npos);
}

TEST_F(RunLists, ShowARunWhoseSummaryIsDamagedAsUnreadable) {
  for (const auto* summary : {"{\"status\": \"comple", "[]", "{}", R"({"status": "unheard_of"})"}) {
    make_run("torn");
    write("torn/summary.json", summary);
    const auto runs = list_runs(folder_);
    ASSERT_EQ(runs.size(), 1U) << summary;
    EXPECT_NE(runs[0].flaw.find("summary.json: expected an object"), std::string::npos) << runs[0].flaw;
  }
}

TEST_F(RunLists, AreJsonWithAllThatIsKnown) {
  make_run("a");
  write("a/summary.json", R"({"status":"failed","stop_reason":"rank 1","steps":3,"best":{"val/accuracy":null}})");
  const auto json = run_list_json(list_runs(folder_));
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["run"], "a");
  EXPECT_EQ(json[0]["status"], "failed");
  EXPECT_EQ(json[0]["stop_reason"], "rank 1");
  EXPECT_TRUE(json[0]["best"]["val/accuracy"].is_null());
}

TEST(RunListText, FitsEightyColumnsWithColumnsAligned) {
  const auto lines = lines_of(run_list_text({run("mnist/2026-11-20_12-00-00", "completed", "val/accuracy", 0.99123),
                                             run("gan/2026-11-19_12-00-00", "failed", "val/accuracy", 0.5)},
                                            {.columns = 80, .now = 1000 + 7200}));
  ASSERT_EQ(lines.size(), 3U);
  for (const auto& line : lines) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_NE(lines[0].find("accuracy"), std::string::npos);
  EXPECT_TRUE(lines[1].ends_with("10    0.9912        8  2 h ago  1h 02m")) << lines[1];
  EXPECT_EQ(lines[1].size(), lines[2].size());
}

TEST_F(RunLists, SayRunsOfOneFolderApartByTheirOverrides) {
  const std::map<std::string, std::string> files = {{"sweep/a", "optimizer.lr=0.1\nmodel=mlp\nrun.dir=sweep/a\n"},
                                                    {"sweep/b", "optimizer.lr=0.2\nmodel=mlp\nrun.dir=sweep/b\n"},
                                                    {"other/c", "optimizer.lr=0.3\n"}};
  for (const auto& [run, text] : files) {
    make_run(run);
    write(run + "/overrides.txt", text);
  }
  std::map<std::string, std::string> apart;
  for (const auto& listed : list_runs(folder_)) apart[listed.label] = listed.apart;
  EXPECT_EQ(apart, (std::map<std::string, std::string>{{"sweep/a", "lr=0.1"}, {"sweep/b", "lr=0.2"}, {"other/c", ""}}));
  const auto json = run_list_json(list_runs(folder_ / "sweep"));
  EXPECT_EQ(json[0]["overrides"].size(), 3U) << "all of them";
}

TEST(RunListText, ShowsOverridesWithinEightyColumns) {
  auto one = run("trial_0000", "stopped_early", "val/accuracy", 0.99123), other = one;
  one.apart = "lr=0.0312345 momentum=0.90";
  const std::vector<ListedRun> runs = {one, other};
  for (const auto& line : lines_of(run_list_text(runs, {.columns = 80, .now = 1000})))
    EXPECT_LE(line.size(), 80U) << line;
  const auto lines = lines_of(run_list_text(runs, {.columns = 80, .now = 1000}));
  EXPECT_TRUE(lines[0].ends_with("OVERRIDES")) << lines[0];
  EXPECT_TRUE(lines[1].ends_with("lr=0.0312345 momentum=0.90")) << lines[1];
  one.apart += " dropout=0.123456 weight_decay=0.0001 batch=64";
  EXPECT_NE(run_list_text({one, other}, {.now = 1000}).find(one.apart), std::string::npos) << "a pipe gets all of it";
  const auto longer = lines_of(run_list_text({one, other}, {.columns = 80, .now = 1000}));
  for (const auto& line : longer) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_NE(longer[1].find("momentum=0.90"), std::string::npos) << longer[1];
  EXPECT_TRUE(longer[1].ends_with("...")) << longer[1];
  EXPECT_EQ(run_list_text({other}, {.now = 1000}).find("OVERRIDES"), std::string::npos);
}

TEST(RunListText, NamesTheMetricInEachRowWhereTheyDiffer) {
  const auto lines = lines_of(
      run_list_text({run("a", "completed", "val/accuracy", 0.5), run("b", "running", "val/loss", 2)}, {.now = 1000}));
  EXPECT_NE(lines[1].find("val/accuracy 0.5"), std::string::npos);
  EXPECT_NE(lines[2].find("val/loss 2"), std::string::npos);
}

TEST(RunListText, CutsLongNamesOnATerminalAlone) {
  const auto long_run = run(std::string(90, 'x') + "/2026-11-20_12-00-00", "stopped_early", "val/accuracy", 0.5);
  for (const auto& line : lines_of(run_list_text({long_run}, {.columns = 80, .now = 1000})))
    EXPECT_LE(line.size(), 80U) << line;
  EXPECT_NE(run_list_text({long_run}, {.now = 1000}).find(long_run.label), std::string::npos)
      << "scripts want it whole";
}

TEST(RunListText, HasTheWordsThatScriptsRead) {
  for (const auto* status : {"completed", "stopped_early", "preempted", "failed", "running", "interrupted"}) {
    const auto listed = run("a", status, "val/accuracy", 0.5);
    EXPECT_NE(run_list_text({listed}, {.now = 1000}).find(status), std::string::npos);
    EXPECT_EQ(run_list_json({listed})[0]["status"], status);
  }
}

TEST(RunListText, SaysTheTestsOfTheBestCheckpointAndOfTheLast) {
  auto tested = run("a", "completed", "val/accuracy", 0.5);
  EXPECT_EQ(run_list_text({tested}, {.now = 1000}).find("TEST"), std::string::npos);
  tested.state.test_best = 0.4375;
  tested.state.test_last = 0.4063;
  const auto lines = lines_of(run_list_text({tested, run("b", "failed", "val/accuracy", 0.25)}, {.now = 1000}));
  EXPECT_NE(lines[0].find("TEST BEST  TEST LAST"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("   0.4375     0.4063"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("        -          -"), std::string::npos) << lines[2];
  EXPECT_EQ(run_list_json({tested})[0]["test_of_best"], 0.4375);
}

TEST(RunListText, HasNoControlCharacters) {
  auto listed = run("a\033[2J\nb", "completed", "val/accuracy", 0.5);
  listed.apart = "name=\033[2J";
  const auto text = run_list_text({listed}, {.now = 1000});
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

TEST(RunListText, SaysAgesAndDurationsInTheirUnit) {
  EXPECT_EQ(age_text(-5), "0 s ago");
  EXPECT_EQ(age_text(3599), "59 min ago");
  EXPECT_EQ(age_text(7200), "2 h ago");
  EXPECT_EQ(age_text(86400 * 3), "3 d ago");
  EXPECT_EQ(duration_text(3.14), "3.1s");
  EXPECT_EQ(duration_text(61), "1m 01s");
  EXPECT_EQ(duration_text(7260), "2h 01m");
}

TEST(OverridesApart, AreThoseThatNotAllHaveInTheirShortestNames) {
  using Texts = std::vector<std::string>;
  const std::vector<std::pair<std::vector<Overrides>, Texts>> cases = {
      {{{"optimizer.lr=0.1", "trainer.max_steps=9", "run.dir=a"},
        {"optimizer.lr=0.2", "trainer.max_steps=9", "run.dir=b"}},
       {"lr=0.1", "lr=0.2"}},
      {{{"a.x=1"}, {"a.x=1", "a.y=2"}, {"~a.y", "a.x=1"}}, {"", "y=2", "~y"}},
      {{{"a.x=1"}, {"+a.x=2"}, {"++a.x=3"}}, {"x=1", "x=2", "x=3"}},
      // In their order, of two the last.
      {{{"b.z=1", "a.x=1", "b.z=2"}, {"b.z=3", "a.x=2"}}, {"x=1 z=2", "z=3 x=2"}},
      {{{"model.size=1", "data.size=2", "model.depth=3"}, {}}, {"model.size=1 data.size=2 depth=3", ""}},
      {{{"a.x=1"}}, {""}},
      {{}, {}},
      {{{"", "=", "++", "~", "a"}, {"b="}}, {"~ ~a", "b="}}};  // of a broken file
  for (const auto& [runs, texts] : cases) EXPECT_EQ(overrides_apart(runs), texts);
}

}  // namespace
}  // namespace ddprun
