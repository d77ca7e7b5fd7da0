// SPDX-License-Identifier: MIT
#include "features/record/step_record.h"

#include "features/record/record_difference.h"
#include "features/record/record_file.h"
#include "features/record/step_view.h"
#include "made_record.h"
#include "support/temporary_folder.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>

namespace ddprun {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr auto kNan = std::numeric_limits<double>::quiet_NaN();

TEST(StepRecord, ReadsBackAsItWasWritten) {
  auto record = made_record();
  record.parts[0].loss = kNan;
  record.parts[0].samples[0].loss = kNan;
  record.parts[0].samples[1].loss.reset();
  record.parts[0].operators[0].line = "net.py:12";
  record.gradients[0].norm = kNan;
  const auto read = record_from(nlohmann::ordered_json::parse(to_json(record).dump()));
  EXPECT_FALSE(first_difference(record, read));
  EXPECT_TRUE(std::isnan(*read.parts[0].samples[0].loss));
  EXPECT_FALSE(read.parts[0].samples[1].loss);
  EXPECT_EQ(read.parts[1].samples, record.parts[1].samples);
  EXPECT_EQ(read.parts[0].operators, record.parts[0].operators);
  EXPECT_TRUE(std::isnan(read.loss()));
  EXPECT_TRUE(std::isnan(read.gradient_norm()));
}

class RecordsOfRanks : public FolderTest {};
class RecordFile : public FolderTest {};

TEST_F(RecordsOfRanks, AreJoinedAndTheLastOfAStepCounts) {
  std::filesystem::create_directories(record_file(folder_, 0).parent_path());
  EXPECT_THAT(read_records(folder_), SizeIs(0));
  for (int64_t rank = 0; rank < 2; ++rank) {
    std::ofstream file(record_file(folder_, rank));
    auto record = made_record();
    record.parts.erase(record.parts.begin() + rank);  // rank 0 has shard 1
    if (rank == 1) record.gradients.clear(), record.left.clear(), record.begun.clear();
    auto earlier = record;
    earlier.parts.clear();
    file << to_json(earlier).dump() << "\n" << to_json(record).dump() << "\n";
  }
  const auto records = read_records(folder_);
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_FALSE(first_difference(records.at(3), made_record()));
  std::ofstream(record_file(folder_, 1), std::ios::app) << R"({"step": 4)";
  EXPECT_THROW(read_records(folder_), UserError);
}

TEST(StepRecord, LossIsTheMeanByWeights) {
  auto record = made_record();
  record.parts[0].loss = 3;
  record.parts[0].weight = 6;
  record.parts[1].loss = 1;
  EXPECT_DOUBLE_EQ(record.loss(), 2.5);
  record.parts[1].loss = kNan;  // of nothing
  record.parts[1].weight = 0;
  EXPECT_DOUBLE_EQ(record.loss(), 3);
}

TEST(StepView, ShowsSamplesThatAreLostFirstAndComparesWithTheStepsBefore) {
  StepView view{.record = made_record(), .before = {made_record(), made_record()}};
  view.record.parts[1].samples[0].loss = kNan;
  view.record.gradients[0].norm = 6;
  view.before[0].parts[0].loss = 2.5;
  const auto worst = worst_first(view.record);
  ASSERT_THAT(worst, SizeIs(4));
  EXPECT_EQ(worst[0].number, 10);
  EXPECT_EQ(worst[1].number, 1);
  const auto text = step_text(view);
  EXPECT_THAT(text, HasSubstr("  loss 1.5 (1.5 to 2 in the 2 steps before)\n"));
  EXPECT_THAT(text, HasSubstr("    sample 10: loss nan\n    sample 1: loss 2\n"));
  EXPECT_THAT(text, HasSubstr("    w: 6 (at most 3 before)\n"));
  EXPECT_EQ(step_sheet(view, "", {})["sections"][0]["samples"][0]["loss"], "nan");
  view.record.losses_problem = "it needs several samples";
  EXPECT_THAT(step_text(view), HasSubstr("  no losses of single samples: it needs several samples\n"));
}

TEST_F(RecordFile, RefusesWhatIsNone) {
  const auto file = folder_ / "steps.json";
  write_recorded_steps({"outputs/a", {{"experiment", {{"seed", "3"}}}}, {{3, made_record()}}}, file);
  const auto read = read_recorded_steps(file);
  EXPECT_EQ(read.run, "outputs/a");
  EXPECT_EQ(read.facts.at("experiment").at("seed"), "3");
  EXPECT_FALSE(first_difference(read.records.at(3), made_record()));
  for (const auto* text : {"", "[]", "{}", R"({"ddprun_replay": 2})", R"({"ddprun_replay": 1, "run": 3})"}) {
    std::ofstream(file) << text;
    EXPECT_THROW(read_recorded_steps(file), UserError) << text;
  }
  EXPECT_THROW(read_recorded_steps(folder_ / "none.json"), UserError);
}

}  // namespace
}  // namespace ddprun
