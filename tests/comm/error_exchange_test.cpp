// SPDX-License-Identifier: MIT
#include "comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

namespace ddprun {
namespace {

using ::testing::AnyOf;
using ::testing::Each;

// Runs `body(rank, exchange)` on threads that share the store.
void on_ranks(int64_t ranks, const std::function<c10::intrusive_ptr<c10d::Store>()>& open,
              const std::function<void(int64_t, ErrorExchange&)>& body) {
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ErrorExchange exchange(open(), rank, ranks, 60);
      body(rank, exchange);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(ErrorExchange, AllRanksGetTheSameError) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> answers(4), after(4);
  on_ranks(
      4, [&] { return store; },
      [&](int64_t rank, ErrorExchange& exchange) {
        EXPECT_EQ(exchange.agree(""), "");
        answers[rank] = exchange.agree(rank % 2 == 1 ? "rank " + std::to_string(rank) : "");
        after[rank] = exchange.agree("");
      });
  EXPECT_THAT(answers, Each(answers[0]));
  EXPECT_THAT(answers[0], AnyOf("rank 1", "rank 3"));
  EXPECT_THAT(after, Each(""));
}

TEST(ErrorExchange, LeavesNoMoreInTheStoreThanItsLastMeeting) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  on_ranks(
      3, [&] { return store; },
      [&](int64_t rank, ErrorExchange& exchange) {
        for (int meeting = 0; meeting < 50; ++meeting) exchange.agree(rank == 0 ? "no space" : "");
      });
  EXPECT_LE(store->getNumKeys(), 3);
}

TEST(ErrorExchange, TheFirstRankTakesWhatEachHasLeft) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  on_ranks(
      3, [&] { return store; },
      [&](int64_t rank, ErrorExchange& exchange) {
        for (int meeting = 0; meeting < 50; ++meeting) {
          exchange.leave(std::to_string(rank) + " at " + std::to_string(meeting));
          EXPECT_EQ(exchange.agree(""), "");
          for (int64_t from = 0; rank == 0 && from < 3; ++from)
            EXPECT_EQ(exchange.take(from), std::to_string(from) + " at " + std::to_string(meeting));
          EXPECT_EQ(exchange.agree(""), "");
        }
      });
  EXPECT_LE(store->getNumKeys(), 3);
}

TEST(ErrorExchange, WorksThroughAFile) {
  std::string name = (std::filesystem::temp_directory_path() / "ddprun_test_XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(name.data());
  on_ranks(
      3, [&] { return c10::make_intrusive<c10d::FileStore>((folder / "store").string(), 3); },
      [&](int64_t rank, ErrorExchange& exchange) {
        EXPECT_EQ(exchange.agree(""), "");
        EXPECT_EQ(exchange.agree(rank == 2 ? "no space" : ""), "no space");
        EXPECT_EQ(exchange.agree(""), "");
      });
  std::filesystem::remove_all(folder);
}

TEST(ErrorExchange, ARankThatStaysAwayIsACommunicationError) {
  ErrorExchange exchange(c10::make_intrusive<c10d::HashStore>(), 0, 2, 0.05);
  EXPECT_THROW(exchange.agree(""), CommunicationError);
}

TEST(ErrorExchange, AloneNeedsNoStore) {
  ErrorExchange exchange(nullptr, 0, 1, 60);
  EXPECT_EQ(exchange.agree(""), "");
  EXPECT_EQ(exchange.agree("no space"), "no space");
}

}  // namespace
}  // namespace ddprun
