// SPDX-License-Identifier: MIT
// Checks that several threads can call get() at once.
#include "dataset_scene.h"
#include "problem.h"

#include <ddprun/testing/dataset.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <latch>
#include <thread>

namespace ddprun::check {
namespace {

constexpr size_t kThreads = 4;

// Gets all samples in batches, starting elsewhere than the other threads. Returns the first problem.
std::string ask(const SplitScene& scene, const Batch& expected, size_t thread, std::latch& ready) {
  constexpr size_t kRounds = 4, kBatch = 8;
  const auto count = scene.numbers.size();
  ready.arrive_and_wait();
  return problem_of([&] {
    for (size_t first = 0; first < kRounds * count; first += kBatch) {
      Numbers numbers;
      const auto row = [&](size_t i) { return (first + i + thread * count / kThreads) % count; };
      for (size_t i = 0; i < std::min(kBatch, count); ++i) numbers.push_back(scene.numbers[row(i)]);
      const auto got = scene.get(numbers);
      for (size_t i = 0; i < numbers.size(); ++i) {
        compare_row(expected, static_cast<int64_t>(row(i)), got, static_cast<int64_t>(i),
                    "where several threads call get() at once: it must change nothing that they share");
      }
    }
  });
}

void check_threads(const SplitScene& scene) {
  const auto expected = scene.get();
  std::latch ready(kThreads);
  std::vector<std::string> problems(kThreads);
  {
    std::vector<std::jthread> threads;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] { problems[thread] = ask(scene, expected, thread, ready); });
    }
  }
  for (const auto& problem : problems) {
    if (!problem.empty()) complain("in one of ", kThreads, " threads: ", problem);
  }
}

}  // namespace

std::string thread_safe(const DatasetTest& test) {
  return problem_of([&] {
    const auto dataset = started(test);
    for (const auto& scene : splits_of(*dataset, test.samples)) check_threads(scene);
  });
}

}  // namespace ddprun::check
