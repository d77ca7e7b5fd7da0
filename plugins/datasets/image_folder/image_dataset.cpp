// SPDX-License-Identifier: MIT
#include "image_dataset.h"

#include "image_file.h"
#include "resize.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ddprun::images {
namespace {

void no_progress(const std::string&, int64_t, int64_t) {}

}  // namespace

void ImageDataset::read(Options& options) {
  val_fraction_ =
      options.get<double>("val_fraction", 0, "share of the training images held out as val", {.min = 0, .max = 0.999});
  test_fraction_ = options.get<double>("test_fraction", 0, "share of the training images held out as test",
                                       {.min = 0, .max = 0.999});
  seed_ = options.get<int64_t>("seed", 1, "another seed holds out other images", {.min = 0});
  skip_unreadable_ =
      options.get<bool>("skip_unreadable", false, "skip images whose header cannot be read, instead of failing");
  read_format(options);
  augmentation_.read(options);
}

void ImageDataset::prepare(const Progress& progress) {
  const auto all = list(progress);
  const auto found = find_unreadable(
      all, [&](int64_t done, int64_t total) { progress("checking images of " + all.place, done, total); });
  if (found.problems.empty()) return;
  if (!skip_unreadable_) {
    throw UserError(all.place + ": " + text_of(found) +
                    "\nReplace or remove them, or set dataset.skip_unreadable=true.");
  }
  progress("left out: " + text_of(found), 0, 0);
}

void ImageDataset::start() {
  list_ = list(no_progress);
  if (skip_unreadable_) remove(list_, find_unreadable(list_, [](int64_t, int64_t) {}));
  const auto all = static_cast<double>(size(Split::kTrain));
  for (const auto split : {Split::kVal, Split::kTest}) {
    const double fraction = split == Split::kVal ? val_fraction_ : test_fraction_;
    if (fraction > 0) hold_out(list_, split, std::llround(all * fraction), static_cast<uint64_t>(seed_));
  }
  if (size(Split::kTrain) == 0) throw UserError(list_.place + ": no image of train can be read");
}

DataSpec ImageDataset::spec() const {
  return {.sample_shape = format_.shape,
          .classes = static_cast<int64_t>(list_.class_names.size()),
          .class_names = list_.class_names};
}

Batch ImageDataset::get(Split split, std::span<const int64_t> indices) const {
  const auto& samples = list_.of(split);
  const auto bytes = static_cast<size_t>(format_.shape[0] * format_.shape[1] * format_.shape[2]);
  const std::shared_ptr<uint8_t[]> pixels(new uint8_t[bytes * indices.size()]);
  std::vector<int64_t> labels, order;
  for (const int64_t index : indices) {
    if (index < 0 || index >= size(split)) throw std::out_of_range("image " + std::to_string(index));
    const auto& sample = samples[static_cast<size_t>(index)];
    const auto picture = resized_square(decode(sample.picture, format_.shape[0]), resize_, format_.shape[1]);
    std::copy_n(picture.const_data_ptr<uint8_t>(), bytes, pixels.get() + bytes * labels.size());
    order.push_back(static_cast<int64_t>(labels.size()));
    labels.push_back(sample.label);
  }
  auto batch = ImageStore(format_, {pixels, pixels.get()}, std::move(labels)).gather(order);
  batch.index = at::tensor(at::IntArrayRef(indices.data(), indices.size()), at::kLong);
  return batch;
}

at::Tensor ImageDataset::to_image(const at::Tensor& input) const {
  return ImageStore(format_, nullptr, {}).to_image(input);
}

at::Tensor ImageDataset::labels(Split split) const {
  const auto& samples = list_.of(split);
  auto labels = at::empty({size(split)}, at::kLong);
  std::ranges::transform(samples, labels.mutable_data_ptr<int64_t>(), &Sample::label);
  return labels;
}

void ImageDataset::augment(Batch& batch, const AugmentKey& key) const {
  batch.input = augmentation_.apply(batch.input, batch.index, key, black_of(format_));
}

void ImageDataset::read_format(Options& options) {
  const auto size =
      options.get<int64_t>("size", 224, "side of the square that the model sees", {.min = 1, .max = 4096});
  resize_ = options.get<int64_t>("resize", 0, "length of an image's shorter side before the crop; 0: size",
                                 {.min = 0, .max = 8192});
  if (resize_ == 0) resize_ = size;
  if (resize_ < size) options.reject("resize", "smaller than size, " + std::to_string(size));
  const auto channels = options.get<int64_t>("channels", 3, "3: colours, 1: grey", {.min = 1, .max = 3});
  if (channels == 2) options.reject("channels", "expected 1 or 3, found 2");
  const bool grey = channels != 3;
  format_.shape = {grey ? 1 : 3, size, size};
  format_.mean = numbers(options, "mean", grey ? std::vector{0.449} : std::vector{0.485, 0.456, 0.406},
                         "subtracted from the pixels, 0 .. 1, for each channel", {});
  format_.std = numbers(options, "std", grey ? std::vector{0.226} : std::vector{0.229, 0.224, 0.225},
                        "divisor of the pixels after that, for each channel", {.min = 1e-6});
}

std::vector<double> ImageDataset::numbers(Options& options, const std::string& name,
                                          const std::vector<double>& fallback, const std::string& help,
                                          Range<double> range) {
  auto values = options.get<std::vector<double>>(name, fallback, help, range);
  if (values.size() == fallback.size()) return values;
  options.reject(name, "expected a number for each of the " + std::to_string(fallback.size()) + " channels, found " +
                           std::to_string(values.size()));
  return fallback;
}

}  // namespace ddprun::images
