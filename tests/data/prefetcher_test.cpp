// SPDX-License-Identifier: MIT
#include "data/prefetcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <optional>
#include <stdexcept>

namespace ddprun {
namespace {

class PrefetcherThreads : public ::testing::TestWithParam<int64_t> {};

TEST_P(PrefetcherThreads, ItemsComeInOrder) {
  Prefetcher<int64_t> items(5, 200, GetParam(), 4, [](int64_t number) { return number * number; });
  for (int64_t number = 5; number < 200; ++number) EXPECT_EQ(items.next(), number * number);
  EXPECT_TRUE(items.done());
}

TEST_P(PrefetcherThreads, AnErrorComesInItsTurn) {
  Prefetcher<int64_t> items(0, 10, GetParam(), 4, [](int64_t number) {
    if (number == 3) throw std::runtime_error("third");
    return number;
  });
  for (int64_t number = 0; number < 3; ++number) EXPECT_EQ(items.next(), number);
  EXPECT_THROW(items.next(), std::runtime_error);
  EXPECT_EQ(items.next(), 4);
}

TEST_P(PrefetcherThreads, EndsWhileMuchIsLeft) {
  Prefetcher<int64_t> items(0, INT64_MAX, GetParam(), 4, [](int64_t number) { return number; });
  EXPECT_EQ(items.next(), 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, PrefetcherThreads, ::testing::Values(0, 1, 3));

TEST(Prefetcher, EachThreadComputesOnOneCore) {
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  Prefetcher<int> ahead(0, 8, 2, 4, [](int64_t) { return at::get_num_threads(); });
  while (!ahead.done()) EXPECT_EQ(ahead.next(), 1);
  Prefetcher<int> at_once(0, 1, 0, 1, [](int64_t) { return at::get_num_threads(); });
  EXPECT_EQ(at_once.next(), 3);
  at::set_num_threads(threads);
}

TEST(Prefetcher, NeverRunsFurtherAheadThanItsDepth) {
  std::atomic<int64_t> highest = -1;
  std::latch two_made(2);
  Prefetcher<int64_t> items(0, 100, 2, 2, [&](int64_t number) {
    for (int64_t seen = highest; seen < number && !highest.compare_exchange_weak(seen, number);) {
    }
    if (number < 2) two_made.count_down();
    return number;
  });
  two_made.wait();
  EXPECT_EQ(highest, 1);  // nothing was taken yet
  for (int64_t number = 0; number < 100; ++number) {
    EXPECT_LE(highest, number + 1);
    items.next();
  }
}

TEST(Prefetcher, AnItemThatIsNotReadyCanBeGivenUpAndKeepsItsTurn) {
  std::promise<void> gate;
  const auto opened = gate.get_future().share();
  Prefetcher<int64_t> items(0, 2, 1, 1, [&](int64_t number) {
    if (number == 1) opened.wait();
    return number;
  });
  EXPECT_EQ(items.next_unless([] { return false; }), 0);
  EXPECT_EQ(items.next_unless([] { return true; }), std::nullopt);
  EXPECT_FALSE(items.stop_within(std::chrono::milliseconds(1)));
  gate.set_value();
  EXPECT_EQ(items.next(), 1);
  EXPECT_TRUE(items.stop_within(std::chrono::seconds(60)));
}

}  // namespace
}  // namespace ddprun
