// SPDX-License-Identifier: MIT
// What a dataset promises.
#pragma once

#include <ddprun/dataset.h>
#include <ddprun/testing/plugin.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::check {

// Each function makes the dataset anew, and calls prepare() and start().
struct DatasetTest {
  Maker<Dataset> make;
  int64_t samples = 256;  // so many of each split are looked at, spread over all of it
};

// Shapes and types of what get() hands out fit spec(): inputs float32 and finite, or int64 symbols; classes int64 and
// in range; Batch::index the numbers that were asked for; to_image() gives images or nothing.
std::string samples(const DatasetTest& test);

// A number gives the same sample in any batch: alone, twice, in any order; and get() hands out memory of its own.
std::string same_in_any_batch(const DatasetTest& test);

// Several threads that call get() at once get what one gets.
std::string thread_safe(const DatasetTest& test);

// The dataset made again has the same samples: another rank, or a resumed run, would train on other ones.
std::string same_when_made_again(const DatasetTest& test);

// augment() draws from the seed, the epoch and the sample's number alone, so that it does not depend on how the samples
// are dealt out to ranks and batches.
std::string augmentation(const DatasetTest& test);

// Where images() lends a split, get() and augment() give what it and its augmentation make, bit for bit: the runner
// makes batches of it in their place.
std::string images(const DatasetTest& test);

// All of the above, each problem with the name of the function that found it.
std::vector<std::string> all(const DatasetTest& test);

}  // namespace ddprun::check
