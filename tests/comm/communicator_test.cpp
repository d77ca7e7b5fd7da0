// SPDX-License-Identifier: MIT
#include "comm/communicator.h"

#include "support/ranks.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>

namespace ddprun {
namespace {

using testing::on_ranks;

TEST(Communicator, SumAddsTheValuesOfAllRanks) {
  on_ranks(3, [](Communicator& ranks) {
    auto values = torch::tensor({static_cast<double>(ranks.world().rank), 1.0}, at::kDouble);
    ranks.sum(values);
    EXPECT_EQ(values[0].item<double>(), 3.0);
    EXPECT_EQ(values[1].item<double>(), 3.0);
  });
}

TEST(Communicator, BroadcastGivesEveryRankTheTensorsOfRankZero) {
  on_ranks(3, [](Communicator& ranks) {
    std::vector<at::Tensor> tensors{torch::full({5}, ranks.world().rank),
                                    torch::full({2, 2}, 10.0F * ranks.world().rank)};
    ranks.broadcast(tensors);
    EXPECT_TRUE(tensors[0].eq(0).all().item<bool>());
    EXPECT_TRUE(tensors[1].eq(0).all().item<bool>());
  });
}

TEST(Communicator, GatherTextsKeepsTheOrderOfRanksAndEmptyTexts) {
  on_ranks(3, [](Communicator& ranks) {
    const auto mine = ranks.world().rank == 1 ? std::string() : "rank " + std::to_string(ranks.world().rank);
    EXPECT_EQ(ranks.gather_texts(mine), (std::vector<std::string>{"rank 0", "", "rank 2"}));
  });
}

TEST(Communicator, BroadcastTextGivesTheFirstRanksToAll) {
  on_ranks(3, [](Communicator& ranks) {
    const auto own = [&](const std::string& text) { return ranks.world().rank == 0 ? text : "another"; };
    EXPECT_EQ(ranks.broadcast_text(own("rank 0")), "rank 0");
    EXPECT_EQ(ranks.broadcast_text(own("")), "");
  });
}

TEST(Communicator, ASumUnderWayIsNotPartOfAProfileWhichMayEndBefore) {
  static std::atomic<int> seen = 0;
  on_ranks(2, [](Communicator& ranks) {
    const auto count = [](const at::RecordFunction&) {
      ++seen;
      return std::unique_ptr<at::ObserverContext>();
    };
    const auto observer =
        at::addThreadLocalCallback(at::RecordFunctionCallback(count).scopes({at::RecordScope::USER_SCOPE}));
    ranks.start_sum(torch::ones({1})).take();
    at::removeCallback(observer);
  });
  EXPECT_EQ(seen, 0);
}

TEST(Communicator, PendingSumIsThereWhenTaken) {
  on_ranks(2, [](Communicator& ranks) {
    auto pending = ranks.start_sum(torch::ones({3}));
    auto other = torch::ones({1});
    ranks.sum(other);
    EXPECT_EQ(pending.take().sum().item<float>(), 6.0F);
    EXPECT_EQ(other.item<float>(), 2.0F);
  });
}

TEST(Communicator, ABroadcastOfAnyRankReachesAll) {
  for (const int64_t size : {2, 3}) {
    on_ranks(size, [size](Communicator& ranks) {
      std::vector<PendingTensor> pending;
      for (int64_t i = 0; i < 6; ++i)
        pending.push_back(ranks.start_broadcast(torch::full({5}, 10.0 * i + ranks.world().rank), i % size));
      for (int64_t i = 5; i >= 0; --i)
        EXPECT_TRUE(pending[static_cast<size_t>(i)].take().eq(10.0 * i + i % size).all().item<bool>()) << size;
    });
  }
}

TEST(Communicator, SendsTensorsInTheirOrder) {
  on_ranks(3, [](Communicator& ranks) {
    const auto rank = ranks.world().rank;
    if (rank > 0)
      return ranks.send({torch::full({3}, 1.0 * rank), torch::empty({0}), torch::full({1}, 10.0 * rank)}, 0);
    for (const int64_t from : {2, 1}) {
      std::vector<at::Tensor> received{torch::zeros({3}), torch::empty({0}), torch::zeros({1})};
      ranks.receive(received, from);
      EXPECT_TRUE(received[0].eq(from).all().item<bool>());
      EXPECT_EQ(received[2].item<float>(), static_cast<float>(10 * from));
    }
  });
}

int64_t open_sockets() {
  return std::ranges::count_if(std::filesystem::directory_iterator("/proc/self/fd"), [](const auto& entry) {
    std::error_code closed;
    return std::filesystem::read_symlink(entry.path(), closed).string().starts_with("socket:");
  });
}

TEST(Communicator, ARankIsConnectedToItsNeighboursNotToAll) {
  constexpr int64_t kRanks = 24;
  on_ranks(kRanks, [](Communicator& ranks) {
    if (ranks.world().rank == 0) {
      EXPECT_LT(open_sockets(), 6 * kRanks);
    }
    ranks.barrier();
  });
}

TEST(Communicator, AloneNeedsNoStoreAndChangesNothing) {
  Communicator alone({});
  auto values = torch::ones({2});
  alone.sum(values);
  alone.barrier();
  EXPECT_EQ(values.sum().item<float>(), 2.0F);
  EXPECT_EQ(alone.gather_texts("me"), std::vector<std::string>{"me"});
  EXPECT_EQ(alone.broadcast_text("me"), "me");
  EXPECT_EQ(alone.group(), nullptr);
}

TEST(Communicator, ARankThatLeavesIsACommunicationErrorForTheOthers) {
  EXPECT_THROW(on_ranks(
                   2,
                   [](Communicator& ranks) {
                     if (ranks.world().rank == 1) return;
                     auto values = torch::ones({1});
                     ranks.sum(values);
                   },
                   /*timeout_seconds=*/10),
               CommunicationError);
}

}  // namespace
}  // namespace ddprun
