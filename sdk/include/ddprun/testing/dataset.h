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

// get() gives what spec() promises, as the runner checks it in each batch too; and, which it does not check: inputs are
// finite, extras without NaN, and each class has a name or none has.
std::string samples(const DatasetTest& test);

// A number gives the same sample in memory of its own in every call: in any batch, to several threads at once, and from
// a dataset that is made again, as on another rank or in a resumed run.
std::string same_samples(const DatasetTest& test);

// augment() draws only from the seed, the epoch and the sample's number, so it does not depend on how samples are dealt
// out to ranks and batches.
std::string augmentation(const DatasetTest& test);

// If images() provides a split, get() and augment() return bit for bit what it and its augmentation give: the runner
// builds batches from it in their place.
std::string images(const DatasetTest& test);

// Runs all of the above; each problem carries the name of the function that found it.
std::vector<std::string> all(const DatasetTest& test);

}  // namespace ddprun::check
