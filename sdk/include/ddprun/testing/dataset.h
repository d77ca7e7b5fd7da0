// SPDX-License-Identifier: MIT
// What a dataset promises.
#pragma once

#include <ddprun/dataset.h>
#include <ddprun/testing/plugin.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::check {

// Each function makes a new dataset and calls prepare() and start().
struct DatasetTest {
  Maker<Dataset> make;
  int64_t samples = 256;  // samples checked per split, spread over all of it
};

// Shapes and types from get() match spec(): inputs are float32 and finite, or int64 symbols; classes, of samples,
// symbols or pixels, are int64 and in range, -100 where a symbol or pixel is ignored; extras are the promised ones,
// float32 without NaN, int64 or bool; Batch::index holds the numbers that were asked for; to_image() returns images or
// nothing.
std::string samples(const DatasetTest& test);

// A number gives the same sample in any batch: alone, twice, in any order. get() returns memory of its own.
std::string same_in_any_batch(const DatasetTest& test);

// Several threads that call get() at once get what a single one gets.
std::string thread_safe(const DatasetTest& test);

// A dataset that is made again has the same samples; otherwise other ranks and resumed runs would train on different
// ones.
std::string same_when_made_again(const DatasetTest& test);

// augment() draws only from the seed, the epoch and the sample's number, so it does not depend on how samples are dealt
// out to ranks and batches.
std::string augmentation(const DatasetTest& test);

// If images() provides a split, get() and augment() return bit for bit what it and its augmentation give: the runner
// builds batches from it in their place.
std::string images(const DatasetTest& test);

// Runs all of the above; each problem carries the name of the function that found it.
std::vector<std::string> all(const DatasetTest& test);

}  // namespace ddprun::check
