// SPDX-License-Identifier: MIT
#include "features/record/record_difference.h"
#include "features/record/record_file.h"
#include "features/record/step_record.h"
#include "features/record/step_view.h"
#include "support/temporary_folder.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using Change = std::function<void(StepRecord&)>;

// Two shards of two samples and two operators each.
StepRecord made_record() {
  StepRecord record{.step = 3};
  for (int64_t shard = 0; shard < 2; ++shard) {
    PartNote part{.number = shard, .loss = 1.5, .weight = 2};
    for (int64_t i = 0; i < 2; ++i) part.samples.push_back({.number = 10 * shard + i, .digest = 7, .loss = 1.0 + i});
    for (const auto* name : {"aten::mm", "aten::relu"})
      part.operators.push_back({.name = name, .parameters = "w", .results = {{"Float[2, 3]", 5, 2.0, true}}});
    record.parts.push_back(part);
  }
  record.gradients = {{.name = "w", .tensor = {"Float[3]", 9, 1.0, true}, .norm = 3}};
  record.left = {{.name = "w", .tensor = {"Float[3]", 8, 1.0, true}, .norm = 4},
                 {.name = "b", .tensor = {"Float[1]", 8, 1.0, true}, .norm = 1}};
  record.begun = record.left;
  return record;
}

// Returns the difference between a record and one that is changed.
std::string difference(const Change& change) {
  auto other = made_record();
  change(other);
  const auto found = first_difference(made_record(), other);
  return found ? found->text : "";
}

TEST(RecordDifference, IsNoneBetweenRecordsThatAreAlike) {
  EXPECT_EQ(difference([](StepRecord&) {}), "");
  EXPECT_EQ(difference([](StepRecord& record) { record.parts[0].samples[0].loss.reset(); }), "") << "not of training";
}

TEST(RecordDifference, SaysWhatDiffersInTheOrderOfTheStep) {
  const std::vector<std::pair<Change, std::string>> changes{
      {[](StepRecord& record) { record.begun[1].tensor.digest = 1; }, "what it begins with: b of 2 tensors"},
      {[](StepRecord& record) { record.parts[1].samples[1].number = 99; },
       "it trains on other samples: 11 only in the first, 99 only in the second"},
      {[](StepRecord& record) { record.parts[1].samples[0].digest = 99; },
       "the network is given other numbers for 1 of 4 samples (input, target or extras): 10"},
      {[](StepRecord& record) { std::swap(record.parts[0].samples, record.parts[1].samples); },
       "the batch is computed in 2 parts in the first and 2 in the second, or in another order"},
      {[](StepRecord& record) { record.parts[0].operators[0].name = "aten::addmm"; },
       "shard 0, operator 1 of 2: aten::mm (w) in the first is aten::addmm (w) in the second"},
      {[](StepRecord& record) { record.parts[0].operators[1].results[0].form = "Half[2, 3]"; },
       "shard 0, operator 2 of 2: aten::relu (w) gives Float[2, 3] in the first and Half[2, 3] in the second"},
      {[](StepRecord& record) { record.parts[1].operators[0].results[0].digest = 6; },
       "shard 1, operator 1 of 2: aten::mm (w), which gives Float[2, 3]"},
      {[](StepRecord& record) { record.parts[1].operators.pop_back(); },
       "shard 1, operator 2 of 2: only the first continues, with aten::relu (w)"},
      {[](StepRecord& record) { record.parts[1].loss = 2; }, "shard 1: the loss, 1.5 and 2"},
      {[](StepRecord& record) { record.gradients[0].tensor.digest = 1; },
       "the exchanged gradients, though all operators give the same: w of 1 tensors"},
      {[](StepRecord& record) { record.left[0].tensor.digest = record.left[1].tensor.digest = 1; },
       "what the step leaves, though the gradients are the same: w and 1 more of 2 tensors"}};
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(difference(changes[i].first), changes[i].second);
    for (size_t later = i + 1; later < changes.size(); ++later) {
      const auto both = difference([&](StepRecord& record) {
        changes[later].first(record);
        changes[i].first(record);
      });
      EXPECT_THAT(both, StartsWith(changes[i].second.substr(0, 20))) << "before " << changes[later].second;
    }
  }
}

TEST(RecordDifference, SaysWhereToLookForTheNumbers) {
  auto other = made_record();
  other.parts[1].operators[1].results[0].digest = 6;
  const auto found = first_difference(made_record(), other);
  ASSERT_TRUE(found && found->results);
  EXPECT_EQ(found->results->rank, -1);
  EXPECT_EQ(found->results->part, 1);
  EXPECT_EQ(found->results->number, 1);
}

TEST(OddOperator, IsTheFirstOverAHundredTimesItsUsualOrNotFinite) {
  const auto before = std::vector{made_record()};
  auto record = made_record();
  EXPECT_EQ(first_odd_operator(record, before), "");
  record.parts[1].operators[0].results[0].largest = 200;
  EXPECT_EQ(first_odd_operator(record, before), "") << "not over a hundred times";
  record.parts[1].operators[0].results[0].largest = 201;
  EXPECT_EQ(first_odd_operator(record, before),
            "shard 1, operator 1 of 2, aten::mm (w), gives numbers up to 201, and in the steps before up to 2");
  record.parts[0].operators[1].results[0].finite = false;
  EXPECT_EQ(first_odd_operator(record, {}),
            "shard 0, operator 2 of 2, aten::relu (w), gives numbers that are not finite");
}

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
