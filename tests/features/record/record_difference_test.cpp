// SPDX-License-Identifier: MIT
#include "features/record/record_difference.h"

#include "made_record.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using testing::StartsWith;
using Change = std::function<void(StepRecord&)>;

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
       "shard 1, operator 2 of 2: only the first goes on, with aten::relu (w)"},
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

TEST(RecordDifference, TellsWhereToLookForTheNumbers) {
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

}  // namespace
}  // namespace ddprun
