// SPDX-License-Identifier: MIT
#include "comm/shard_tree.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

namespace ddprun {
namespace {

// What a stack machine is left with, the values being texts: "(0+1)", "2".
std::vector<std::string> run(const AddPlan& plan, const std::vector<std::string>& values) {
  std::vector<std::string> stack;
  for (size_t i = 0; i < plan.size(); ++i) {
    stack.push_back(values.at(i));
    for (int64_t left = plan[i]; left > 0; --left) {
      const auto right = stack.back();
      stack.pop_back();
      stack.back() = "(" + stack.back() + "+" + right + ")";
    }
  }
  return stack;
}

// The expression that so many ranks compute together.
std::string expression(int64_t shards, int64_t present, int64_t world) {
  const ShardTree tree(shards, present, world);
  std::vector<std::string> sums;
  for (int64_t rank = 0; rank < world; ++rank) {
    const auto own = part_of(shards, rank, world);
    std::vector<std::string> values;
    for (auto shard = own.begin; shard < std::min(own.end, present); ++shard) values.push_back(std::to_string(shard));
    EXPECT_EQ(tree.own(rank).size(), values.size());
    const auto left = run(tree.own(rank), values);
    EXPECT_EQ(static_cast<int64_t>(left.size()), tree.sums_of(rank));
    sums.insert(sums.end(), left.begin(), left.end());
  }
  EXPECT_EQ(tree.all().size(), sums.size());
  const auto left = run(tree.all(), sums);
  EXPECT_EQ(left.size(), 1U);
  return left.front();
}

TEST(ShardTree, IsTheSameExpressionForEveryNumberOfRanks) {
  for (int64_t shards = 1; shards <= 33; ++shards) {
    for (int64_t present = 1; present <= shards; ++present) {
      const auto alone = expression(shards, present, 1);
      for (int64_t world = 2; world <= shards + 3; ++world)
        ASSERT_EQ(expression(shards, present, world), alone) << present << " of " << shards << " on " << world;
    }
  }
}

TEST(ShardTree, IsBalancedAndLeavesOutShardsWithoutSamples) {
  EXPECT_EQ(expression(8, 8, 3), "(((0+1)+(2+3))+((4+5)+(6+7)))");
  EXPECT_EQ(expression(6, 6, 2), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(expression(8, 5, 4), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(expression(8, 1, 4), "0");
}

TEST(ShardTree, ARankSendsOneSumWherePowersOfTwoMeetAndFewOtherwise) {
  for (int64_t shards = 1; shards <= 33; ++shards) {
    const auto most = 2 * std::bit_width(static_cast<uint64_t>(shards));
    for (int64_t world = 1; world <= shards; ++world) {
      const ShardTree tree(shards, shards, world);
      const bool powers =
          std::has_single_bit(static_cast<uint64_t>(shards)) && std::has_single_bit(static_cast<uint64_t>(world));
      for (int64_t rank = 0; rank < world; ++rank) {
        EXPECT_GE(tree.sums_of(rank), 1) << shards << " on " << world;
        EXPECT_LE(tree.sums_of(rank), powers ? 1 : most) << shards << " on " << world;
      }
    }
  }
  const ShardTree uneven(8, 8, 3);
  EXPECT_EQ(uneven.sums_of(0) + uneven.sums_of(1) + uneven.sums_of(2), 5);
}

// So the memory that the first whole batch takes for the exchange is never replaced: a captured step knows it.
TEST(ShardTree, ARankSendsMostOfAWholeBatch) {
  for (int64_t shards = 1; shards <= 16; ++shards) {
    for (int64_t world = 1; world <= shards; ++world) {
      const ShardTree whole(shards, shards, world);
      for (int64_t present = 1; present < shards; ++present) {
        const ShardTree ragged(shards, present, world);
        for (int64_t rank = 0; rank < world; ++rank)
          EXPECT_LE(ragged.sums_of(rank), whole.sums_of(rank)) << shards << " " << world << " " << present;
      }
    }
  }
}

}  // namespace
}  // namespace ddprun
