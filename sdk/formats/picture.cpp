// SPDX-License-Identifier: MIT
#include "picture.h"

#include <png.h>

#include <stdexcept>

namespace ddprun {

Picture::Picture(int64_t rows, int64_t columns, Colour paper)
    : height(rows), width(columns), bytes(static_cast<size_t>(rows * columns * kChannels)) {
  fill(0, 0, rows, columns, paper);
}

void Picture::set(int64_t row, int64_t column, Colour colour) {
  auto* pixel = bytes.data() + (row * width + column) * kChannels;
  pixel[0] = colour.red;
  pixel[1] = colour.green;
  pixel[2] = colour.blue;
}

void Picture::fill(int64_t row, int64_t column, int64_t rows, int64_t columns, Colour colour) {
  for (int64_t r = row; r < row + rows; ++r) {
    for (int64_t c = column; c < column + columns; ++c) set(r, c, colour);
  }
}

Colour pixel_of(const ShownImage& image, int64_t row, int64_t column) {
  const int64_t plane = image.height * image.width, at = row * image.width + column;
  if (image.channels < 3) return {image.bytes[at], image.bytes[at], image.bytes[at]};
  return {image.bytes[at], image.bytes[plane + at], image.bytes[2 * plane + at]};
}

Picture picture_of(const ShownImage& image) {
  Picture picture(image.height, image.width);
  for (int64_t row = 0; row < image.height; ++row) {
    for (int64_t column = 0; column < image.width; ++column) picture.set(row, column, pixel_of(image, row, column));
  }
  return picture;
}

std::string image_path(const PredictionTable& table, const Prediction& row) {
  return "images/" + table.split + "/" + std::to_string(row.id) + ".png";
}

std::string output_path(const PredictionTable& table, const Prediction& row) {
  return "images/" + table.split + "/" + std::to_string(row.id) + "_step_" + std::to_string(table.step) + ".png";
}

namespace {

// `format` is libpng's, of 8 bits.
std::string encoded(int64_t height, int64_t width, png_uint_32 format, const uint8_t* bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  png_alloc_size_t size = 0;
  const auto write = [&](void* memory) {
    if (!png_image_write_to_memory(&image, memory, &size, 0, bytes, 0, nullptr))
      throw std::runtime_error(std::string("libpng: ") + image.message);
  };
  write(nullptr);  // only computes the size
  std::string file(size, '\0');
  write(file.data());
  file.resize(size);
  return file;
}

}  // namespace

std::string encode_png(const Picture& picture) {
  return encoded(picture.height, picture.width, PNG_FORMAT_RGB, picture.bytes.data());
}

std::string encode_png(const ShownImage& image) {
  if (image.channels >= 3) return encode_png(picture_of(image));
  return encoded(image.height, image.width, PNG_FORMAT_GRAY, image.bytes.data());
}

}  // namespace ddprun
