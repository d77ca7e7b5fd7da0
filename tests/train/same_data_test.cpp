// SPDX-License-Identifier: MIT
#include "train/same_data.h"

#include "support/error_of.h"
#include "support/ranks.h"
#include "support/toy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ToyDataset;

TEST(RequireSameData, NamesTheRankWithOtherSizes) {
  testing::on_ranks(3, [](Communicator& communicator) {
    const auto told = [&](int64_t samples_of_the_last) {
      const ToyDataset data(communicator.world().rank == 2 ? samples_of_the_last : 100, 40);
      return error_of([&] { require_same_data(data, Experiment(), communicator); });
    };
    EXPECT_EQ(told(100), "");
    EXPECT_THAT(told(90), AllOf(HasSubstr("rank 2 on "), HasSubstr("has 90 training samples, 40 validation samples"),
                                HasSubstr("has 100 training samples")));
  });
}

}  // namespace
}  // namespace ddprun
