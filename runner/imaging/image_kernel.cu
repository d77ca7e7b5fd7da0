// SPDX-License-Identifier: MIT
// Makes a batch of images on a GPU, with a block of threads per image and some pixels per thread. Compiled at run time
// for the present GPU (cuda_image_batcher.cpp), together with image_place.h.
#include "imaging/image_place.h"

using ddprun::ImagePlace;
using ddprun::ImageRules;

namespace {

struct Steps {
  long long image, channel, row, column;
};

// Rounds to the nearest bfloat16, ties to even, as LibTorch does.
__device__ unsigned short bfloat16_of(float value) {
  const unsigned int bits = __float_as_uint(value);
  return static_cast<unsigned short>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

__device__ void store(float* to, float value) { *to = value; }
__device__ void store(unsigned short* to, float value) { *to = bfloat16_of(value); }

// Takes the epoch from the request, whose numbers follow it: a graph replays the rules of its capture.
template <class Number>
__device__ void make_image(const unsigned char* pixels, const float* table, const long long* labels,
                           const long long* request, const ImageRules& rules, const Steps& steps, Number* out,
                           long long* targets) {
  __shared__ ImagePlace place;
  const long long number = request[1 + blockIdx.x];
  if (threadIdx.x == 0) {
    ImageRules of_epoch = rules;
    of_epoch.epoch = static_cast<unsigned int>(request[0]);
    place = ddprun::place_of(of_epoch, number);
    targets[blockIdx.x] = labels[number];
  }
  __syncthreads();
  const int plane = rules.height * rules.width;
  const unsigned char* image = pixels + number * rules.channels * plane;
  Number* result = out + blockIdx.x * steps.image;
  for (int pixel = threadIdx.x; pixel < plane; pixel += blockDim.x) {
    const int y = pixel / rules.width, x = pixel % rules.width;
    const int row = ddprun::source_row(rules, place, y), column = ddprun::source_column(rules, place, x);
    const bool black = row == ddprun::kBlackPixel || column == ddprun::kBlackPixel;
    const bool cut = ddprun::is_cut(rules, place, y, x);
    for (int channel = 0; channel < rules.channels; ++channel) {
      const unsigned int byte = black ? 0 : image[channel * plane + row * rules.width + column];
      const float value = cut ? 0.0F : table[channel * 256 + byte];
      store(result + channel * steps.channel + y * steps.row + x * steps.column, value);
    }
  }
}

}  // namespace

extern "C" __global__ void make_images_float(const unsigned char* pixels, const float* table, const long long* labels,
                                             const long long* request, ImageRules rules, Steps steps, float* out,
                                             long long* targets) {
  make_image(pixels, table, labels, request, rules, steps, out, targets);
}

extern "C" __global__ void make_images_bfloat16(const unsigned char* pixels, const float* table,
                                                const long long* labels, const long long* request, ImageRules rules,
                                                Steps steps, unsigned short* out, long long* targets) {
  make_image(pixels, table, labels, request, rules, steps, out, targets);
}
