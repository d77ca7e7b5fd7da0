// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/logger.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

struct Colour {
  uint8_t red = 0, green = 0, blue = 0;
};

// A colour image: row after row, each pixel's three values together.
struct Picture {
  static constexpr int64_t kChannels = 3;

  Picture(int64_t rows, int64_t columns, Colour paper = {255, 255, 255});
  void set(int64_t row, int64_t column, Colour colour);
  void fill(int64_t row, int64_t column, int64_t rows, int64_t columns, Colour colour);

  int64_t height, width;
  std::vector<uint8_t> bytes;
};

// Returns one pixel of a sample; it is grey if the sample has fewer than three channels.
Colour pixel_of(const ShownImage& image, int64_t row, int64_t column);

Picture picture_of(const ShownImage& image);

// Returns the name of a sample's file, "images/val/17.png", in the run's folder and on servers that take files.
std::string image_path(const PredictionTable& table, const Prediction& row);

// Returns the name for the model's output on that sample, "images/val/17_step_300.png": there is one per step.
std::string output_path(const PredictionTable& table, const Prediction& row);

// Return the content of a PNG file, of a sample in grey or in colours as it is. Throw std::runtime_error with libpng's
// message.
std::string encode_png(const Picture& picture);
std::string encode_png(const ShownImage& image);

}  // namespace ddprun
