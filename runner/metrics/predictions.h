// SPDX-License-Identifier: MIT
// Turns the results of an evaluation into tables for people and loggers.
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

// Returns the dataset's class names, or "0", "1", ... unless it has one for each of `classes`.
std::vector<std::string> class_names(const DataSpec& spec, int64_t classes);

// Returns one of the images that Dataset::to_image has made; nothing if it has made none.
ShownImage image_of(const at::Tensor& images, int64_t row);

// Makes a table of `counts`, as in Evaluation::confusion.
ConfusionTable confusion_table(const at::Tensor& counts, const DataSpec& spec, const std::string& split, int64_t epoch,
                               int64_t step);

// A model's predictions for one batch, on the CPU. For sequences, [B, T, C] scores against [B, T] classes, only the
// last symbol: it is predicted from all others. For images of classes, [B, C, H, W] scores against [B, H, W] classes,
// the guessed class of each pixel stands for its scores.
struct PredictedBatch {
  at::Tensor index;   // [B] int64
  at::Tensor scores;  // [B, C] float32 of the classes, or [B, values]
  at::Tensor guess;   // [B] int64: the class of the highest score; undefined without classes
  at::Tensor truth;   // [B] int64, or [B, values] without classes
  at::Tensor output;  // [B, ...] float32 for Dataset::to_image(), or [B, 1, H, W] uint8 to show: an image for each
                      // image if the model returns those; else undefined
  std::vector<std::string> files = {};  // [B]: the samples' names, such as their files; empty if they have none
  bool has_truth = true;                // false for new files
};

// Calls the model's predict(); evaluation mode and NoGradGuard are the caller's. Throws UserError if the prediction
// does not have a row for each sample.
PredictedBatch predict(Model& model, const Batch& batch, const Objective& objective);

// Appends the samples of a batch. `input` is the batch's, before the model could change it.
void append_rows(PredictionTable& table, const PredictedBatch& batch, const at::Tensor& input, const Dataset& dataset);

// Returns the header of a CSV file: index,file,truth,guess,score_<class> ...; without classes index,file,truth_0
// ...,prediction_0. Without names there is no file, and the truth is left out where it is unknown.
std::string prediction_head(const PredictedBatch& batch, const DataSpec& spec);

// Returns a line for each sample. Truth and guess are the classes' names; numbers read back as the same float32.
std::string prediction_lines(const PredictedBatch& batch, const DataSpec& spec);

}  // namespace ddprun
