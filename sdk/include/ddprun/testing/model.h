// SPDX-License-Identifier: MIT
// What a model promises. Does not include <ddprun/model.h>, which takes longer to compile than all else here.
#pragma once

#include <ddprun/batch.h>
#include <ddprun/objective.h>
#include <ddprun/testing/plugin.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::check {

// A model and its test data. Small is enough: at least three samples, few units.
struct ModelTest {
  Maker<Model> make;
  DataSpec data;  // what prepare() is given

  // The samples. If empty, eight of normally distributed numbers are used, with random classes or, without classes,
  // random values for what the model predicts.
  Batch batch = {};

  // If null, cross entropy for data with classes and mean squared error otherwise.
  std::shared_ptr<const Objective> objective = nullptr;
};

// Returns `count` samples of normally distributed numbers in the shape of `data`, with random classes if it has any,
// and with extras of ones (float32), as of masks that hide nothing.
Batch random_batch(const DataSpec& data, int64_t count, uint64_t seed = 1);

// In evaluation predict() returns the same for a sample each time, whatever the others of its batch are.
std::string evaluation(const ModelTest& test);

// Everything that the loss trains is registered, or it would be neither averaged over the ranks nor saved; and the
// weights come from the seed.
std::string parameters(const ModelTest& test);

// Backward agrees with finite differences, in float64, with dropout drawn alike. Checks up to `numbers` of each
// parameter, with two forward passes for each of them: keep the tested model small.
std::string gradients(const ModelTest& test, int64_t numbers = 20);

// A model of another seed that is given the trained one's parameters and buffers, as from a checkpoint, predicts the
// same.
std::string state_round_trip(const ModelTest& test);

// The gradient of a batch is the mean over two ranks that hold a part of it each, a smaller and a larger one; so are
// its loss and metrics. Checked in training, or in evaluation if the model has noise or running statistics; where
// symbols or pixels have classes, also with some that do not count.
std::string ranks_agree(const ModelTest& test);

// Runs all of the above; each problem carries the name of the function that found it: "gradients: ...".
std::vector<std::string> all(const ModelTest& test);

}  // namespace ddprun::check
