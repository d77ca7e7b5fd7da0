// SPDX-License-Identifier: MIT
// What a model promises. Without <ddprun/model.h>, which costs a compiler more than all else here.
#pragma once

#include <ddprun/batch.h>
#include <ddprun/objective.h>
#include <ddprun/testing/plugin.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::check {

// A model, and what it is looked at with. Small is enough: a handful of samples, few units.
struct ModelTest {
  Maker<Model> make;
  DataSpec data;  // what prepare() is given

  // Samples; where it has none, eight of normally distributed numbers, with random classes or, without classes, random
  // values for what the model predicts.
  Batch batch = {};

  // Null: cross entropy where the data have classes, mean squared error where not.
  std::shared_ptr<const Objective> objective = nullptr;
};

// `count` samples of normally distributed numbers of the shape of `data`, with random classes where it has some.
Batch random_batch(const DataSpec& data, int64_t count, uint64_t seed = 1);

// The objective of a ModelTest that has none.
std::shared_ptr<const Objective> default_objective(const DataSpec& data);

// forward() takes batches of any size and gives a finite prediction for each sample; [B, C] of them with the default
// objective. In evaluation it gives the same each time, whatever the other samples are.
std::string shapes(const ModelTest& test);

// All that the loss trains is registered (else it would neither be averaged over the ranks nor saved), all that is
// registered gets a finite gradient, and the weights come from the seed.
std::string parameters(const ModelTest& test);

// Backward agrees with finite differences, in float64, with dropout drawn alike. Up to `numbers` of each parameter are
// looked at.
std::string gradients(const ModelTest& test, int64_t numbers = 20);

// How overfits() trains, and what it expects.
struct Overfit {
  int64_t steps = 200;
  double lr = 0.01;    // of Adam
  double share = 0.1;  // of the first loss, that the last is to be below
};

// Trained on the one batch again and again, the model learns it by heart.
std::string overfits(const ModelTest& test, const Overfit& overfit = {});

// A model of another seed that is given the trained one's parameters and buffers, as from a checkpoint, predicts the
// same.
std::string state_round_trip(const ModelTest& test);

// The gradient of a batch is the mean over two ranks that have a part of it each, a smaller and a larger one; so are
// its loss and metrics. In evaluation, and in training too where the model has no noise and no running statistics.
std::string ranks_agree(const ModelTest& test);

// All of the above, each problem with the name of the function that found it: "gradients: ...".
std::vector<std::string> all(const ModelTest& test);

}  // namespace ddprun::check
