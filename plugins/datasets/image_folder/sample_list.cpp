// SPDX-License-Identifier: MIT
#include "sample_list.h"

#include "image_file.h"

#include <ddprun/error.h>
#include <ddprun/random.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace ddprun::images {
namespace {

constexpr uint64_t kHoldOutStream =
    0x666F6C6465720000;  // "folder": told apart from other uses of the seed; the split is added
constexpr size_t kMostProblemsShown = 20;
constexpr int64_t kBlock = 64;  // files that a thread takes at once

// Reads the headers of all files of a split. Returns the problems by sample number.
std::map<size_t, std::string> check_headers(const Samples& samples, const std::function<void(int64_t)>& progress) {
  std::map<size_t, std::string> problems;
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  const auto take_block = [&] {
    const size_t begin = next.fetch_add(kBlock), end = std::min(begin + kBlock, samples.size());
    for (size_t i = begin; i < end; ++i) {
      try {
        check_file(samples[i].picture);
      } catch (const UserError& error) {
        std::scoped_lock lock(mutex);
        problems[i] = error.what();
      }
    }
    return begin < samples.size();
  };
  const auto cores = std::clamp<unsigned>(std::thread::hardware_concurrency(), 1, 16);
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < cores && samples.size() > kBlock; ++i) {
      others.emplace_back([&] {
        while (take_block()) {
        }
      });
    }
    while (take_block()) progress(static_cast<int64_t>(std::min(next.load(), samples.size())));
  }
  return problems;
}

// Moves the marked training samples to another split.
void move_marked(SampleList& list, Split split, const std::vector<bool>& moved) {
  auto& train = list.of(Split::kTrain);
  Samples rest;
  for (size_t i = 0; i < train.size(); ++i) (moved[i] ? list.of(split) : rest).push_back(std::move(train[i]));
  train = std::move(rest);
}

}  // namespace

void hold_out(SampleList& list, Split split, int64_t count, uint64_t seed) {
  auto& train = list.of(Split::kTrain);
  const auto there = list.of(split).size();
  if (there > 0 || count < 1 || count >= static_cast<int64_t>(train.size())) {
    const std::string name = split_name(split);
    throw UserError(list.place + ": cannot hold out " + std::to_string(count) + " of " + std::to_string(train.size()) +
                    " training images as " + name + ", which has " + std::to_string(there) + "; change dataset." +
                    name + "_fraction");
  }
  std::vector<size_t> order(train.size());
  std::iota(order.begin(), order.end(), 0);
  RandomStream(seed, kHoldOutStream + static_cast<uint64_t>(split)).shuffle(order);
  std::vector<bool> moved(train.size());
  for (int64_t i = 0; i < count; ++i) moved[order[static_cast<size_t>(i)]] = true;
  move_marked(list, split, moved);
}

void hold_out(SampleList& list, const Fold& fold, uint64_t seed) {
  if (!list.of(Split::kVal).empty())
    throw UserError(list.place + ": it has a split val; leave out dataset.folds, or divide a folder without one");
  std::vector<int64_t> labels;
  for (const auto& sample : list.of(Split::kTrain)) labels.push_back(sample.label);
  const auto folds = assign_folds(labels, fold.count, seed);
  std::vector<bool> moved;
  for (const int64_t number : folds) moved.push_back(number == fold.number);
  move_marked(list, Split::kVal, moved);
}

Unreadable find_unreadable(const SampleList& list, const std::function<void(int64_t, int64_t)>& progress) {
  int64_t total = 0, done = 0;
  for (const auto& samples : list.splits) total += static_cast<int64_t>(samples.size());
  Unreadable found;
  for (size_t split = 0; split < list.splits.size(); ++split) {
    const auto& samples = list.splits[split];
    found.marks[split].resize(samples.size());
    for (const auto& [sample, problem] : check_headers(samples, [&](int64_t some) { progress(done + some, total); })) {
      found.marks[split][sample] = true;
      found.problems.push_back(problem);
    }
    done += static_cast<int64_t>(samples.size());
  }
  return found;
}

std::string text_of(const Unreadable& found) {
  std::string text = std::to_string(found.problems.size()) +
                     (found.problems.size() == 1 ? " image cannot be read:" : " images cannot be read:");
  for (size_t i = 0; i < found.problems.size(); ++i) {
    if (i == kMostProblemsShown) return text + "\n  and " + std::to_string(found.problems.size() - i) + " more";
    text += "\n  " + found.problems[i];
  }
  return text;
}

void remove(SampleList& list, const Unreadable& found) {
  for (size_t split = 0; split < list.splits.size(); ++split) {
    Samples kept;
    for (size_t i = 0; i < list.splits[split].size(); ++i) {
      if (!found.marks[split][i]) kept.push_back(std::move(list.splits[split][i]));
    }
    list.splits[split] = std::move(kept);
  }
}

}  // namespace ddprun::images
