// SPDX-License-Identifier: MIT
// Which pictures there are: files, classes and splits.
#pragma once

#include <ddprun/batch.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::images {

struct Sample {
  std::filesystem::path file;
  int64_t label = 0;
};
using Samples = std::vector<Sample>;

struct SampleList {
  std::string place;  // the folder or file it was read from: what error texts begin with
  std::vector<std::string> class_names;
  std::array<Samples, 3> splits;  // by Split

  Samples& of(Split split) { return splits[static_cast<size_t>(split)]; }
  const Samples& of(Split split) const { return splits[static_cast<size_t>(split)]; }
};

// Moves this many random training samples to a split that has none; the order stays. The same seed moves the same
// samples. Throws UserError where the count is 0, the split has samples, or train would have none.
void hold_out(SampleList& list, Split split, int64_t count, uint64_t seed);

struct Unreadable {
  std::vector<std::string> problems;  // a line each, in the order of the list
  std::array<std::vector<bool>, 3> marks;
};

// Reads the headers of all files, on several threads. `progress` gets the number of files done and in all, on this
// thread.
Unreadable find_unreadable(const SampleList& list, const std::function<void(int64_t, int64_t)>& progress);

// The first problems, and how many there are.
std::string text_of(const Unreadable& found);

void remove(SampleList& list, const Unreadable& found);

}  // namespace ddprun::images
