// SPDX-License-Identifier: MIT
#include "agent/sidecars.h"

#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace ddprun {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr seconds kLong{60}, kShort{1};
constexpr auto kUntilTheRunEnds = "cat >&2\n";  // cat ends with its input

class SidecarsOfARun : public FolderTest {
 protected:
  // A sidecar that is a shell script, called with --check, --beside RUN, or RUN.
  PlacedSidecar script(const std::string& name, const std::string& text) const {
    write(folder_ / name, text);
    return {.sidecar = {.name = name, .command = {"/bin/sh", (folder_ / name).string()}}, .place = "a.yaml:3: " + name};
  }

  std::vector<Unsent> finish(const PlacedSidecar& sidecar, seconds patience) {
    Sidecars sidecars;
    sidecars.start({sidecar}, folder_);
    return sidecars.finish(patience);
  }

  std::string log(const std::string& name) const { return read(folder_ / "logs" / (name + ".log")); }
};

TEST_F(SidecarsOfARun, AreAskedBeforeItWhetherTheyCanWork) {
  require_sidecars({script("good", "[ \"$1\" = --check ]")});
  const auto bad = script("bad", "echo of no interest; echo pip install it >&2; exit 2");
  EXPECT_EQ(error_of([&] { require_sidecars({bad, script("worse", "echo no; exit 1")}); }),
            "a.yaml:3: bad: pip install it\na.yaml:3: worse: no");
  const PlacedSidecar none{.sidecar = {.name = "none", .command = {"/no/such/program"}}, .place = "b.yaml"};
  EXPECT_THAT(error_of([&] { require_sidecars({none}); }), AllOf(HasSubstr("b.yaml: "), HasSubstr("/no/such/program")));
}

TEST_F(SidecarsOfARun, GetItsFolderAndLearnOfItsEnd) {
  EXPECT_TRUE(finish(script("good", std::string(kUntilTheRunEnds) + "echo $1 $2 >&2; echo done"), kLong).empty());
  EXPECT_EQ(log("good"), "--beside " + folder_.string() + "\n");
}

TEST_F(SidecarsOfARun, WaitInAReadOfTheirInput) {
  constexpr auto kElseItFails = "[ $((0$(sed -n 's/^flags:[^0-9]*//p' /proc/$$/fdinfo/0) & 04000)) = 0 ] || exit 1\n";
  EXPECT_TRUE(finish(script("good", std::string(kElseItFails) + kUntilTheRunEnds + "echo done"), kLong).empty());
}

TEST_F(SidecarsOfARun, OneThatIsKilledIsStartedAgain) {
  const auto once = "[ -e " + (folder_ / "began").string() + " ] || { touch " + (folder_ / "began").string() +
                    "; kill -9 $$; }\n" + kUntilTheRunEnds + "echo done";
  EXPECT_TRUE(finish(script("mortal", once), kLong).empty());
}

TEST_F(SidecarsOfARun, OneThatGivesUpIsNotAndItsReasonAndTheCommandForLaterAreKnown) {
  const auto unsent = finish(script("it's", "echo x >&2; echo failed no such project"), kLong);
  ASSERT_EQ(unsent.size(), 1U);
  EXPECT_EQ(unsent[0].problem, "no such project");
  EXPECT_EQ(unsent[0].command, "/bin/sh '" + (folder_ / "it'\\''s").string() + "' " + folder_.string());
  EXPECT_EQ(log("it's"), "x\n");
}

TEST_F(SidecarsOfARun, OneThatAlwaysDiesIsNotWaitedForLong) {
  const auto unsent = finish(script("brief", "exit 1"), kLong);
  ASSERT_EQ(unsent.size(), 1U);
  EXPECT_THAT(unsent[0].problem, HasSubstr("logs/brief.log"));
}

TEST_F(SidecarsOfARun, OneThatTakesTooLongIsEnded) {
  const auto file = (folder_ / "ended").string();
  const auto slow =
      "trap 'echo > " + file + "; exit' TERM; echo warning the server is away; while :; do sleep 0.05; done";
  const auto unsent = finish(script("slow", slow), kShort);
  ASSERT_EQ(unsent.size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace ddprun
