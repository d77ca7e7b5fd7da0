// SPDX-License-Identifier: MIT
#include "image_dataset.h"

#include "resize.h"

#include <ddprun/error.h>
#include <ddprun/random.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace ddprun::images {
namespace {

constexpr uint64_t kCropDraws = 0x63726F7000000000;  // "crop": distinct from other uses of the seed

void no_progress(const std::string&, int64_t, int64_t) {}

}  // namespace

void ImageDataset::read(Options& options) {
  val_fraction_ =
      options.get<double>("val_fraction", 0, "share of the training images held out as val", {.min = 0, .max = 0.999});
  test_fraction_ = options.get<double>("test_fraction", 0, "share of the training images held out as test",
                                       {.min = 0, .max = 0.999});
  fold_ = Fold::read(options, "val_fraction");
  seed_ = options.get<int64_t>("seed", 1, "another seed holds out other images", {.min = 0});
  if (options.has("seed") && val_fraction_ == 0 && test_fraction_ == 0 && fold_.count == 0)
    options.reject("seed", "has no effect: neither val_fraction, test_fraction nor folds holds anything out");
  skip_unreadable_ = options.get<bool>(
      "skip_unreadable", false, "leave out images that cannot be read, instead of failing; decodes all before a run");
  decode_all_ = options.get<bool>("decode_all", false,
                                  "before a run decode all images, not only their headers, to find what is damaged");
  read_format(options);
  reading_.turn =
      options.get<bool>("exif_rotation", true, "turn pictures as their Exif data say, as viewers show them");
  reading_.most_pixels = options.get<int64_t>(
      "max_pixels", kMostPixels,
      "larger pictures are refused; a JPEG is counted as it is decoded, halved while it stays twice as large as resize",
      {.min = 1, .max = int64_t{1} << 32});
  reading_.least_side = 2 * resize_;
  read_crop(options);
  augmentation_.read_pixel_changes(options);
  augmentation_.read(options);
  pads_ = augmentation_.crop_padding > 0;
  if (crop_ && pads_) options.reject("crop_padding", "cannot be combined with crop_scale; choose one");
  afterwards_ = augmentation_;
  if (pads_) return;
  afterwards_.flip = false;  // the threads that decode do it, for less
  afterwards_.erasing = 0;
}

void ImageDataset::prepare(const Progress& progress) {
  const auto all = list(progress);
  const auto found =
      unreadable(all, [&](int64_t done, int64_t total) { progress("checking images of " + all.place, done, total); });
  if (skip_unreadable_) try {
      remember(all, reading_, found);
    } catch (const UserError& error) {
      progress(std::string(error.what()) + "; so each process decodes all images itself", 0, 0);
    }
  if (found.problems.empty()) return;
  if (!skip_unreadable_) {
    throw UserError(all.place + ": " + text_of(found) +
                    "\nReplace or remove them, or set dataset.skip_unreadable=true.");
  }
  progress("left out: " + text_of(found), 0, 0);
}

Unreadable ImageDataset::unreadable(const SampleList& list,
                                    const std::function<void(int64_t, int64_t)>& progress) const {
  return find_unreadable(list, reading_, decode_all_ || skip_unreadable_, progress);
}

// Each split and each class must keep some: without val a run would choose by the test split, and say so to nobody.
void ImageDataset::leave_out_unreadable() {
  const auto refuse = [&](const std::string& what) {
    throw UserError(list_.place + ": no image of " + what + " can be read");
  };
  std::array<bool, 3> had{};
  for (size_t split = 0; split < had.size(); ++split) had[split] = !list_.splits[split].empty();
  const auto known = recall(list_, reading_);
  remove(list_, known ? *known : unreadable(list_, [](int64_t, int64_t) {}));
  for (const auto split : {Split::kTrain, Split::kVal, Split::kTest})
    if (had[static_cast<size_t>(split)] && size(split) == 0) refuse(split_name(split));
  std::vector<bool> has(list_.class_names.size());
  for (const auto& sample : list_.of(Split::kTrain)) has[static_cast<size_t>(sample.label)] = true;
  const auto lost = std::ranges::find(has, false);
  if (lost != has.end()) refuse("the class " + list_.class_names[static_cast<size_t>(lost - has.begin())]);
}

void ImageDataset::start() {
  list_ = list(no_progress);
  if (skip_unreadable_) leave_out_unreadable();
  for (const auto& samples : list_.splits) list_.account.used += std::ssize(samples);
  const auto all = static_cast<double>(size(Split::kTrain));
  for (const auto split : {Split::kVal, Split::kTest}) {
    const double fraction = split == Split::kVal ? val_fraction_ : test_fraction_;
    if (fraction > 0) hold_out(list_, split, std::llround(all * fraction), static_cast<uint64_t>(seed_));
  }
  if (fold_.count > 0) hold_out(list_, fold_, static_cast<uint64_t>(seed_));
  if (size(Split::kTrain) == 0) throw UserError(list_.place + ": no image of train can be read");
}

DataSpec ImageDataset::spec() const {
  return {.sample_shape = format_.shape,
          .classes = static_cast<int64_t>(list_.class_names.size()),
          .class_names = list_.class_names};
}

DataAccount ImageDataset::account() const {
  auto account = list_.account;
  count_others(list_, account);
  account.digest = digest_of(list_);
  return account;
}

template <class Picture>
Batch ImageDataset::gathered(Split split, std::span<const int64_t> indices, Picture picture) const {
  const auto& samples = list_.of(split);
  return gather_images(format_, indices, [&](int64_t index, int64_t& label) {
    if (index < 0 || index >= size(split)) throw std::out_of_range("image " + std::to_string(index));
    const auto& sample = samples[static_cast<size_t>(index)];
    label = sample.label;
    try {
      return picture(sample, index);
    } catch (const UserError& error) {
      throw UserError(std::string(error.what()) +
                      "; dataset.skip_unreadable=true leaves out what cannot be decoded, and dataset.decode_all=true "
                      "finds it before a run");
    }
  });
}

Batch ImageDataset::get(Split split, std::span<const int64_t> indices) const {
  return gathered(split, indices, [&](const Sample& sample, int64_t) { return whole_picture(sample); });
}

Batch ImageDataset::draw(std::span<const int64_t> indices, const AugmentKey& key) const {
  auto batch = gathered(Split::kTrain, indices, [&](const Sample& sample, int64_t index) {
    const auto picture = crop_ ? random_part(sample, index, key) : whole_picture(sample);
    const auto changed =
        augmentation_.changes_pixels() ? augmentation_.change_pixels(picture.contiguous(), index, key) : picture;
    return !pads_ && augmentation_.mirrors(index, key) ? changed.flip(2) : changed;
  });
  if (!pads_) augmentation_.erase(batch.input, batch.index, key);
  return batch;
}

at::Tensor ImageDataset::whole_picture(const Sample& sample) const {
  return resized_square(decode(sample.picture, format_.shape[0], reading_), resize_, format_.shape[1]);
}

at::Tensor ImageDataset::random_part(const Sample& sample, int64_t index, const AugmentKey& key) const {
  RandomStream random(key.seed ^ kCropDraws, static_cast<uint64_t>(index), static_cast<uint32_t>(key.epoch));
  const auto part = decode(sample.picture, format_.shape[0], reading_, [&](const Size& size) {
    return Cut{.box = random_box(size, *crop_, random), .least_side = 2 * format_.shape[1]};
  });
  return resized(part, format_.shape[1]);
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

bool ImageDataset::start_without_data(const DataSpec& noted, const Batch&) {
  if (noted.class_names.empty()) return false;
  list_ = {.place = "--input", .class_names = noted.class_names, .splits = {}};
  return true;
}

std::string ImageDataset::sample_name(Split split, int64_t index) const {
  return list_.of(split)[static_cast<size_t>(index)].picture.text();
}

std::vector<std::string> ImageDataset::use_inputs(const std::vector<std::filesystem::path>& files) {
  SampleList inputs{.place = "--input"};
  for (const auto& file : files) inputs.of(Split::kTest).push_back({.picture = file});
  const auto found = unreadable(inputs, [](int64_t, int64_t) {});
  if (!found.problems.empty() && !skip_unreadable_)
    throw UserError(text_of(found) + "\nLeave them out, or set dataset.skip_unreadable=true.");
  remove(inputs, found);
  list_.of(Split::kTest) = std::move(inputs.of(Split::kTest));
  if (size(Split::kTest) == 0) throw UserError("no image of --input can be read");
  std::vector<std::string> names;
  for (const auto& sample : list_.of(Split::kTest)) names.push_back(sample.picture.text());
  return names;
}

void ImageDataset::augment(Batch& batch, const AugmentKey& key) const {
  batch.input = afterwards_.apply(batch.input, batch.index, key, black_of(format_));
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

void ImageDataset::read_crop(Options& options) {
  CropRange range;
  const auto scale = options.get<std::vector<double>>(
      "crop_scale", {},
      "training images are random parts of the pictures with this share of their area, such as [0.08, 1], resized to "
      "size; by default all of the picture but for its longer ends",
      {.min = 1e-6, .max = 1});
  const auto ratio = options.get<std::vector<double>>("crop_ratio", {range.ratio[0], range.ratio[1]},
                                                      "width to height of these parts, the least and the greatest",
                                                      {.min = 1e-3, .max = 1e3});
  const auto is_range = [](const std::vector<double>& pair) { return pair.size() == 2 && pair[0] <= pair[1]; };
  if (!is_range(ratio)) options.reject("crop_ratio", "expected two numbers, the smaller one first");
  if (scale.empty()) {
    if (options.has("crop_ratio")) options.reject("crop_ratio", "has no effect without crop_scale");
    return;
  }
  if (!is_range(scale)) options.reject("crop_scale", "expected two numbers, the smaller one first");
  if (!is_range(scale) || !is_range(ratio)) return;
  crop_ = {.scale = {scale[0], scale[1]}, .ratio = {ratio[0], ratio[1]}};
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
