// SPDX-License-Identifier: MIT
// Says where each pixel of a training image comes from after crop, flip and cutout: ImageAugmentation::apply pixel by
// pixel, with the same draws. The code includes nothing but its like, because it is compiled for the CPU and, at run
// time, for the GPU.
#pragma once

#include <ddprun/philox.h>

namespace ddprun {

// What is done to all images of a batch.
struct ImageRules {
  int channels, height, width;
  int crop_padding;      // 0: no crop
  int crop_reflect;      // otherwise black
  int flip;              // 0: no, 1: drawn in each epoch, 2: alternating
  int cutout;            // side of the square; 0: none
  unsigned int seed[2];  // low word first
  unsigned int epoch;
};

// What is done to a single image.
struct ImagePlace {
  int row, column;  // where the crop begins, from the image's upper left corner: negative in the padding
  bool mirrored;
  int cut_row, cut_column;  // where the square begins
};

constexpr int kBlackPixel = -1, kMeanPixel = -2;

// Returns an integer in [0, bound).
constexpr int below(unsigned int word, int bound) {
  const int value = static_cast<int>(philox_unit(word) * static_cast<float>(bound));
  return value < bound ? value : bound - 1;
}

// Returns block number `block` of a sample's draws in an epoch.
constexpr PhiloxBlock draws_of(const ImageRules& rules, long long sample, unsigned int epoch, unsigned int block) {
  const auto bits = static_cast<unsigned long long>(sample);
  return philox_block({{block, epoch, static_cast<unsigned int>(bits), static_cast<unsigned int>(bits >> 32)}},
                      rules.seed[0], rules.seed[1]);
}

constexpr ImagePlace place_of(const ImageRules& rules, long long sample) {
  ImagePlace place{0, 0, false, 0, 0};
  if (rules.crop_padding == 0 && rules.flip == 0 && rules.cutout == 0) return place;
  const auto draws = draws_of(rules, sample, rules.epoch, 0);
  place.row = below(draws.words[0], 2 * rules.crop_padding + 1) - rules.crop_padding;
  place.column = below(draws.words[1], 2 * rules.crop_padding + 1) - rules.crop_padding;
  if (rules.flip == 1) place.mirrored = philox_unit(draws.words[2]) < 0.5F;
  if (rules.flip == 2) {
    place.mirrored = (philox_unit(draws_of(rules, sample, 0, 0).words[2]) < 0.5F) != (rules.epoch % 2 == 1);
  }
  if (rules.cutout > 0) {
    place.cut_row = below(draws.words[3], rules.height) - rules.cutout / 2;
    place.cut_column = below(draws_of(rules, sample, rules.epoch, 1).words[0], rules.width) - rules.cutout / 2;
  }
  return place;
}

// Mirrors positions beyond an edge at the edge's pixel: -1 becomes 1.
constexpr int reflected(int position, int size) {
  const int from_left = position < 0 ? -position : position;
  const int from_right = size - 1 - from_left;
  return size - 1 - (from_right < 0 ? -from_right : from_right);
}

// Returns the row of the stored image that is row y of the result, or kBlackPixel.
constexpr int source_row(const ImageRules& rules, const ImagePlace& place, int y) {
  const int row = y + place.row;
  if (row >= 0 && row < rules.height) return row;
  return rules.crop_reflect ? reflected(row, rules.height) : kBlackPixel;
}

constexpr int source_column(const ImageRules& rules, const ImagePlace& place, int x) {
  const int column = (place.mirrored ? rules.width - 1 - x : x) + place.column;
  if (column >= 0 && column < rules.width) return column;
  return rules.crop_reflect ? reflected(column, rules.width) : kBlackPixel;
}

constexpr bool is_cut(const ImageRules& rules, const ImagePlace& place, int y, int x) {
  const int row = y - place.cut_row, column = x - place.cut_column;
  return row >= 0 && row < rules.cutout && column >= 0 && column < rules.cutout;
}

}  // namespace ddprun
