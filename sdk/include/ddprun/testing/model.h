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

// A model and its test data. Small is enough: a handful of samples, few units.
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

// Returns the objective that a ModelTest without one gets.
std::shared_ptr<const Objective> default_objective(const DataSpec& data);

// predict() takes batches of any size and returns a finite prediction per sample; with the default objective [B, C], or
// [B, T, C] where targets are [B, T], or [B, C, H, W] where they are [B, H, W]. In evaluation it returns the same each
// time, whatever the other samples are.
std::string shapes(const ModelTest& test);

// Everything that the loss trains is registered (or it would be neither averaged over the ranks nor saved), everything
// registered gets a finite gradient, and the weights come from the seed.
std::string parameters(const ModelTest& test);

// Backward agrees with finite differences, in float64, with dropout drawn alike. Checks up to `numbers` of each
// parameter, with two forward passes for each of them: keep the tested model small.
std::string gradients(const ModelTest& test, int64_t numbers = 20);

// How overfits() trains, and what it expects.
struct Overfit {
  int64_t steps = 200;
  double lr = 0.01;    // Adam's learning rate
  double share = 0.1;  // the last loss must be below this share of the first
};

// Trained on the one batch again and again, the model learns it by heart.
std::string overfits(const ModelTest& test, const Overfit& overfit = {});

// A model of another seed that is given the trained one's parameters and buffers, as from a checkpoint, predicts the
// same.
std::string state_round_trip(const ModelTest& test);

// The gradient of a batch is the mean over two ranks that hold a part of it each, a smaller and a larger one; so are
// its loss and metrics. Checked in evaluation, and in training if the model has no noise and no running statistics;
// where symbols or pixels have classes, also with some that do not count.
std::string ranks_agree(const ModelTest& test);

// Runs all of the above; each problem carries the name of the function that found it: "gradients: ...".
std::vector<std::string> all(const ModelTest& test);

}  // namespace ddprun::check
