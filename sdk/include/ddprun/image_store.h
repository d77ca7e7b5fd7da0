// SPDX-License-Identifier: MIT
// Images that fit into memory, one byte per value, and their classes: what a dataset's get() gathers its batches from.
//
//   store_ = ImageStore({.shape = {1, 28, 28}, .mean = {0.1307}, .std = {0.3081}}, pixels, labels);
//   Batch get(Split, std::span<const int64_t> indices) const { return store_.gather(indices); }
//
// A small value: copies and slices share the pixels. Const calls are safe from any number of threads.
#pragma once

#include <ddprun/batch.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ddprun {

// How stored bytes become the model's numbers: (byte / 255 - mean) / std, for each channel.
struct ImageFormat {
  std::vector<int64_t> shape;     // of one image: {channels, height, width}
  std::vector<double> mean, std;  // one for each channel, or one for all
};

// What the byte 0 becomes, for each channel.
DDPRUN_API std::vector<double> black_of(const ImageFormat& format);

class DDPRUN_API ImageStore {
 public:
  ImageStore() = default;  // no images

  // `pixels` holds labels.size() images one after the other, each in the order of format.shape. It may own a buffer, a
  // mapped file or a part of either (std::shared_ptr's aliasing constructor). Throws std::invalid_argument where the
  // format is none.
  ImageStore(const ImageFormat& format, std::shared_ptr<const uint8_t> pixels, std::vector<int64_t> labels);

  int64_t size() const { return static_cast<int64_t>(labels_.size()); }  // images
  const std::vector<int64_t>& shape() const { return shape_; }           // of one: {channels, height, width}
  const std::vector<int64_t>& labels() const { return labels_; }         // the class of each

  // What each byte becomes: [C, 256] float32.
  at::Tensor table() const;

  // What the byte 0 becomes, for each channel.
  std::vector<double> black() const;

  // Asks for the bytes of an image that is read next: a shuffled batch reads from all over memory, and waiting for them
  // while this one is converted halves the time. Throws std::out_of_range.
  void prefetch(int64_t image) const;

  // The stored bytes of one image; those of all follow one another.
  std::span<const uint8_t> pixels(int64_t image) const;

  // The images first, first + 1, ..., first + count - 1 as a store of their own. Throws std::out_of_range.
  ImageStore slice(int64_t first, int64_t count) const;

  // The images with these numbers in this order, in new tensors: input [B, C, H, W] float32, target and index [B]
  // int64. One pass on the calling thread. Throws std::out_of_range for a number that is none of the store's.
  Batch gather(std::span<const int64_t> images) const;

  // The bytes that `input` ([B, C, H, W] float32 on the CPU, as gather() gives it) was made of: for Dataset::to_image.
  at::Tensor to_image(const at::Tensor& input) const;

 private:
  using Table = std::array<float, 256>;

  void normalize(const uint8_t* bytes, float* out) const;  // one image

  std::vector<int64_t> shape_;
  int64_t image_bytes_ = 0;
  std::shared_ptr<const uint8_t> pixels_;
  std::vector<int64_t> labels_;
  std::shared_ptr<const std::vector<Table>> tables_;  // what each byte becomes, for each channel
};

}  // namespace ddprun
