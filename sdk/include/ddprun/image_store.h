// SPDX-License-Identifier: MIT
// Images in memory, one byte per value, and their classes: a dataset's get() gathers its batches from them.
//
//   store_ = ImageStore({.shape = {1, 28, 28}, .mean = {0.1307}, .std = {0.3081}}, pixels, labels);
//   Batch get(Split, std::span<const int64_t> indices) const { return store_.gather(indices); }
//
// A small value: copies and slices share the pixels. Const calls are safe from any number of threads.
#pragma once

#include <ddprun/batch.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ddprun {

// How stored bytes become the model's inputs: (byte / 255 - mean) / std, per channel.
struct ImageFormat {
  std::vector<int64_t> shape;     // shape of one image: {channels, height, width}
  std::vector<double> mean, std;  // one per channel, or one for all
};

// Returns what the byte 0 becomes, per channel.
DDPRUN_API std::vector<double> black_of(const ImageFormat& format);

// Makes an image, [C, H, W] uint8 on the CPU with any strides, and says its class.
using MakeImage = std::function<at::Tensor(int64_t index, int64_t& label)>;

// Returns the batch of the images with these numbers, for a get() or draw() that decodes or changes them: input [B, C,
// H, W] float32, target and index [B] int64. Throws what `make` throws, and std::invalid_argument if the format is
// invalid or an image is not as the format says.
DDPRUN_API Batch gather_images(const ImageFormat& format, std::span<const int64_t> indices, const MakeImage& make);

// Writes the bytes of an image, all of them, in the order of ImageFormat::shape. It is called from any thread, and
// writes the same each time.
using PaintImage = std::function<void(int64_t image, std::span<uint8_t> bytes)>;

class DDPRUN_API ImageStore {
 public:
  ImageStore() = default;  // holds no images

  // `pixels` holds labels.size() images one after the other, each in the order of format.shape. It may own a buffer, a
  // mapped file or a part of either (std::shared_ptr's aliasing constructor). Throws std::invalid_argument if the
  // format is invalid.
  ImageStore(const ImageFormat& format, std::shared_ptr<const uint8_t> pixels, std::vector<int64_t> labels);

  // Holds labels.size() images that are painted when they are first read, each once, so that a worker makes only those
  // that it needs. Reading throws what `paint` throws. Throws std::invalid_argument if the format is invalid.
  ImageStore(const ImageFormat& format, std::vector<int64_t> labels, PaintImage paint);

  int64_t size() const { return static_cast<int64_t>(labels_.size()); }  // number of images
  const std::vector<int64_t>& shape() const { return shape_; }    // shape of one image: {channels, height, width}
  const std::vector<int64_t>& labels() const { return labels_; }  // class of each image

  // Returns what each byte becomes: [C, 256] float32.
  at::Tensor table() const;

  // Returns what the byte 0 becomes, per channel.
  std::vector<double> black() const;

  // Prefetches the bytes of the image that is read next. A shuffled batch reads from all over memory, and hiding that
  // latency halves the time. Throws std::out_of_range.
  void prefetch(int64_t image) const;

  // Returns the stored bytes of one image; all images are contiguous. One that is painted when it is read must be asked
  // for by its own number.
  std::span<const uint8_t> pixels(int64_t image) const;

  // Returns the images first, first + 1, ..., first + count - 1 as a store of their own. Throws std::out_of_range.
  ImageStore slice(int64_t first, int64_t count) const;

  // Returns the images with these numbers in this order, in new tensors: input [B, C, H, W] float32, target and index
  // [B] int64. Makes one pass on the calling thread. Throws std::out_of_range for an invalid number.
  Batch gather(std::span<const int64_t> images) const;

  // Returns the bytes that `input` ([B, C, H, W] float32 on the CPU, from gather()) was made of, for Dataset::to_image.
  at::Tensor to_image(const at::Tensor& input) const;

 private:
  using Table = std::array<float, 256>;
  struct Unpainted;

  std::vector<int64_t> shape_;
  int64_t image_bytes_ = 0;
  std::shared_ptr<const uint8_t> pixels_;
  std::shared_ptr<Unpainted> unpainted_;  // null: all images are there
  int64_t first_ = 0;                     // the number there of the first image here
  std::vector<int64_t> labels_;
  std::shared_ptr<const std::vector<Table>> tables_;  // what each byte becomes, per channel
};

}  // namespace ddprun
