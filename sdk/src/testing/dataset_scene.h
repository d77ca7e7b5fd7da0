// SPDX-License-Identifier: MIT
// Shared by the checks of a dataset. All functions throw Problem.
#pragma once

#include <ddprun/testing/dataset.h>

#include <memory>
#include <vector>

namespace ddprun::check {

using Numbers = std::vector<int64_t>;

std::shared_ptr<Dataset> started(const DatasetTest& test);

DataSpec spec_of(const Dataset& dataset);

// One split of a started dataset, and the numbers of the samples to check.
struct SplitScene {
  const Dataset& dataset;
  Split split;
  Numbers numbers;

  Batch get(const Numbers& some) const;
  Batch get() const { return get(numbers); }
};

// Returns the splits that have samples.
std::vector<SplitScene> splits_of(const Dataset& dataset, int64_t samples);

// Compares bit for bit, except that NaN equals NaN.
bool same(const at::Tensor& one, const at::Tensor& other);

// Throws that the sample "is not the same <when>" if these rows differ.
void compare_row(const Batch& expected, int64_t row, const Batch& got, int64_t got_row, const std::string& when);

}  // namespace ddprun::check
