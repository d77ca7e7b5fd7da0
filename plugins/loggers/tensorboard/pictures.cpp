// SPDX-License-Identifier: MIT
#include "pictures.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ddprun::tensorboard {
namespace {

constexpr int64_t kLeastSide = 56;  // pixels of an image in a grid, enlarged by a whole number
constexpr int64_t kFrame = 3, kGap = 4;
constexpr int64_t kConfusionSide = 480, kLeastSquare = 4;
constexpr Colour kRight{46, 139, 87}, kWrong{205, 51, 51}, kUnknown{160, 160, 160};

Colour frame_of(const Prediction& prediction) {
  if (prediction.truth < 0) return kUnknown;
  return prediction.guess == prediction.truth ? kRight : kWrong;
}

void draw(Picture& picture, const ShownImage& image, Colour frame, int64_t top, int64_t left, int64_t scale) {
  picture.fill(top, left, image.height * scale + 2 * kFrame, image.width * scale + 2 * kFrame, frame);
  for (int64_t row = 0; row < image.height; ++row) {
    for (int64_t column = 0; column < image.width; ++column)
      picture.fill(top + kFrame + row * scale, left + kFrame + column * scale, scale, scale,
                   pixel_of(image, row, column));
  }
}

// Draws the sample and beside it, in the same frame, the model's output if that is an image of the same size.
void draw(Picture& picture, const Prediction& prediction, int64_t top, int64_t left, int64_t scale) {
  draw(picture, prediction.image, frame_of(prediction), top, left, scale);
  const int64_t beside = left + prediction.image.width * scale + kFrame;
  if (!prediction.output.bytes.empty()) draw(picture, prediction.output, frame_of(prediction), top, beside, scale);
}

}  // namespace

std::optional<Picture> prediction_grid(const PredictionTable& table) {
  std::vector<const Prediction*> shown;
  int64_t height = 0, width = 0;
  bool outputs = false;
  for (const auto& prediction : table.rows) {
    if (prediction.image.bytes.empty()) continue;
    shown.push_back(&prediction);
    height = std::max(height, prediction.image.height);
    width = std::max(width, prediction.image.width);
    if (!prediction.output.bytes.empty()) outputs = true;
  }
  if (shown.empty()) return std::nullopt;
  const int64_t scale = std::max<int64_t>(1, (kLeastSide + std::max(height, width) - 1) / std::max(height, width));
  const auto count = static_cast<int64_t>(shown.size());
  const auto columns = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const int64_t rows = (count + columns - 1) / columns;
  const int64_t images_width = outputs ? 2 * width * scale + kFrame : width * scale;
  const int64_t cell_height = height * scale + 2 * kFrame + kGap, cell_width = images_width + 2 * kFrame + kGap;
  Picture picture(rows * cell_height + kGap, columns * cell_width + kGap);
  for (int64_t i = 0; i < count; ++i)
    draw(picture, *shown[i], kGap + i / columns * cell_height, kGap + i % columns * cell_width, scale);
  return picture;
}

Picture confusion_picture(const ConfusionTable& table) {
  const auto classes = static_cast<int64_t>(table.class_names.size());
  const int64_t square = std::max(kLeastSquare, kConfusionSide / std::max<int64_t>(classes, 1));
  Picture picture(classes * square, classes * square);
  for (int64_t truth = 0; truth < classes; ++truth) {
    const auto row = table.counts.begin() + truth * classes;
    const auto total = std::max<int64_t>(std::accumulate(row, row + classes, int64_t{0}), 1);
    for (int64_t guess = 0; guess < classes; ++guess) {
      const double share = static_cast<double>(row[guess]) / static_cast<double>(total);
      const auto light =
          static_cast<uint8_t>(std::lround(255 * (1 - std::sqrt(share))));  // keeps rare mistakes visible
      picture.fill(truth * square, guess * square, square, square, {light, light, 255});
    }
  }
  return picture;
}

}  // namespace ddprun::tensorboard
