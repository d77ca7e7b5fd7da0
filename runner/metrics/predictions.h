// SPDX-License-Identifier: MIT
// What an evaluation found, in the form that people and loggers take.
#pragma once

#include <ddprun/batch.h>
#include <ddprun/dataset.h>
#include <ddprun/logger.h>
#include <ddprun/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// The dataset's own names, or "0", "1", ... where it has not one for each of `classes`.
std::vector<std::string> class_names(const DataSpec& spec, int64_t classes);

// One of the images that Dataset::to_image has made; nothing where it has made none.
ShownImage image_of(const at::Tensor& images, int64_t row);

// `counts` as Evaluation::confusion.
ConfusionTable confusion_table(const at::Tensor& counts, const DataSpec& spec, const std::string& split, int64_t epoch,
                               int64_t step);

// What a model makes of one batch, on the CPU; of sequences, [B, T, C] scores against [B, T] classes, the last symbol
// alone: the one that is predicted from all others.
struct PredictedBatch {
  at::Tensor index;   // [B] int64
  at::Tensor scores;  // [B, C] float32 of the classes, or [B, values]
  at::Tensor guess;   // [B] int64: the class of the highest score; undefined where the task has no classes
  at::Tensor truth;   // [B] int64, or [B, values] where the task has no classes
  at::Tensor output;  // [B, ...] float32, an image for each image where the model gives such; else undefined
};

// Calls the model's predict() as it stands: evaluation mode and NoGradGuard are the caller's. Throws UserError where
// the prediction has not a row for each sample.
PredictedBatch predict(Model& model, const Batch& batch, const Objective& objective);

// Appends the samples of a batch. `input` is the batch's, where the model has not changed it.
void append_rows(PredictionTable& table, const PredictedBatch& batch, const at::Tensor& input, const Dataset& dataset);

// The head of a CSV file, one line: index,truth,guess,score_<class> ...; without classes index,truth_0
// ...,prediction_0.
std::string prediction_head(const PredictedBatch& batch, const DataSpec& spec);

// A line for each sample. Truth and guess are the classes' names; numbers read back as the float32 they are.
std::string prediction_lines(const PredictedBatch& batch, const DataSpec& spec);

}  // namespace ddprun
