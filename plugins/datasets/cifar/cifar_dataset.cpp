// SPDX-License-Identifier: MIT
#include "cifar_dataset.h"

#include "cifar_files.h"
#include "new_pictures.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

namespace ddprun::cifar {
namespace {

std::vector<double> channels(Options& options, const std::string& name, const std::vector<double>& fallback,
                             const std::string& help, Range<double> range) {
  auto values = options.get<std::vector<double>>(name, fallback, help + ", for each channel", range);
  if (values.size() == 3) return values;
  options.reject(name, "expected 3 numbers, one for each channel, found " + std::to_string(values.size()));
  return fallback;
}

}  // namespace

CifarDataset::CifarDataset(const CifarTable& table, size_t kind, Options& options)
    : table_(table), kind_(kind), folder_(read_data_folder(table.data, "the archive, or of its files", options)) {
  validation_ =
      options.get<int64_t>("validation", 5000, "training images held out as split val, from the end", {.min = 0});
  limit_train_ = options.get<int64_t>("limit_train", 0, "train on the first images only; 0: on all", {.min = 0});
  format_ = {.shape = {3, kSide, kSide},
             .mean = channels(options, "mean", table.mean, "subtracted from the pixels, 0 .. 1", {}),
             .std = channels(options, "std", table.std, "divisor of the pixels after that", {.min = 1e-6})};
  augmentation_.read(options);
  augmentation_.read_pixel_changes(options);
}

void CifarDataset::prepare(const Progress& progress) { folder_.fetch(progress); }

void CifarDataset::start() {
  const auto path = folder_.require().front();
  const auto files = read_files(path, table_);
  const auto store = [&](const std::vector<std::string>& names) {
    auto images = to_images(files, names, table_, kind_);
    return ImageStore(format_, std::move(images.pixels), std::move(images.labels));
  };
  const auto training = store(table_.train_files);
  const int64_t rest = training.size() - validation_;
  if (rest < 1 || limit_train_ > rest) {
    throw UserError(path.string() + ": holds " + std::to_string(training.size()) +
                    " training images: too few for validation: " + std::to_string(validation_) +
                    " and limit_train: " + std::to_string(limit_train_));
  }
  class_names_ = class_names(files, table_.labels[kind_]);
  beyond_limit_ = limit_train_ ? rest - limit_train_ : 0;
  stores_ = {training.slice(0, limit_train_ ? limit_train_ : rest), training.slice(rest, validation_),
             store({table_.test_file})};
}

bool CifarDataset::start_without_data(const DataSpec& noted, const Batch&) {
  class_names_ = noted.class_names;
  return true;
}

std::vector<std::string> CifarDataset::use_inputs(const std::vector<std::filesystem::path>& files) {
  const auto pictures = images::read_new_pictures(files, format_.shape);
  stores_[static_cast<size_t>(Split::kTest)] = images::new_store(format_, pictures);
  return pictures.names;
}

DataSpec CifarDataset::spec() const {
  return {.sample_shape = format_.shape, .classes = table_.labels[kind_].classes, .class_names = class_names_};
}

Batch CifarDataset::draw(std::span<const int64_t> indices, const AugmentKey& key) const {
  const auto& stored = store(Split::kTrain);
  if (!augmentation_.changes_pixels()) return stored.gather(indices);
  return gather_images(format_, indices, [&](int64_t index, int64_t& label) {
    auto* bytes = const_cast<uint8_t*>(stored.pixels(index).data());  // from_blob takes no const; nothing writes to it
    label = stored.labels()[static_cast<size_t>(index)];
    return augmentation_.change_pixels(at::from_blob(bytes, {3, kSide, kSide}, at::kByte), index, key);
  });
}

// The runner makes batches of bytes itself, where they are not changed before.
ImageSource CifarDataset::images(Split split) const {
  if (split == Split::kTrain && augmentation_.changes_pixels()) return {};
  return {&store(split), &augmentation_};
}

void CifarDataset::augment(Batch& batch, const AugmentKey& key) const {
  batch.input = augmentation_.apply(batch.input, batch.index, key, black_of(format_));
}

}  // namespace ddprun::cifar
