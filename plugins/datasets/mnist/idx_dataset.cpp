// SPDX-License-Identifier: MIT
#include "idx_dataset.h"

#include "idx_file.h"
#include "new_pictures.h"

#include <ddprun/error.h>

namespace ddprun::idx {
namespace {

std::vector<int64_t> checked_labels(const IdxFile& file, int64_t classes) {
  std::vector<int64_t> labels(file.bytes.get(), file.bytes.get() + file.count());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < classes) continue;
    throw UserError(file.path.string() + ": label " + std::to_string(labels[i]) + " of image " + std::to_string(i) +
                    ", expected 0 to " + std::to_string(classes - 1) + "; replace the file");
  }
  return labels;
}

std::string size_text(const std::vector<int64_t>& shape) {
  return std::to_string(shape[1]) + " x " + std::to_string(shape[2]);
}

}  // namespace

FileEntry packed_file(const std::string& name, int64_t archive_bytes, const std::string& archive_sha256,
                      const std::string& content_sha256) {
  return {.archive = {name + ".gz", archive_bytes, archive_sha256, content_sha256}, .unpacked = {name}};
}

IdxDataset::IdxDataset(const IdxTable& table, Options& options)
    : table_(table), folder_(read_data_folder(table.data, "the four files, or torchvision's", options)) {
  validation_ =
      options.get<int64_t>("validation", 5000, "training images held out as split val, from the end", {.min = 0});
  limit_train_ = options.get<int64_t>("limit_train", 0, "train on the first images only; 0: on all", {.min = 0});
  mean_ = options.get<double>("mean", table.mean, "subtracted from the pixels, 0 .. 1");
  std_ = options.get<double>("std", table.std, "divisor of the pixels after that", {.min = 1e-6});
}

void IdxDataset::prepare(const Progress& progress) { folder_.fetch(progress); }

void IdxDataset::start() {
  const auto paths = folder_.require();
  const auto training = load(paths[0], paths[1]);
  auto test = load(paths[2], paths[3]);
  if (training.shape() != test.shape()) {
    throw UserError(paths[2].string() + ": images of " + size_text(test.shape()) + ", but those of " +
                    paths[0].string() + " are " + size_text(training.shape()));
  }
  const int64_t rest = training.size() - validation_;
  if (rest < 1 || limit_train_ > rest) {
    throw UserError(paths[0].string() + ": holds " + std::to_string(training.size()) +
                    " images: too few for validation: " + std::to_string(validation_) +
                    " and limit_train: " + std::to_string(limit_train_));
  }
  set_format(training.shape());
  beyond_limit_ = limit_train_ ? rest - limit_train_ : 0;
  stores_ = {training.slice(0, limit_train_ ? limit_train_ : rest), training.slice(rest, validation_), std::move(test)};
}

ImageStore IdxDataset::load(const std::filesystem::path& image_path, const std::filesystem::path& label_path) const {
  const auto images = read_idx(image_path, IdxKind::kImages);
  const auto labels = read_idx(label_path, IdxKind::kLabels);
  if (images.count() != labels.count()) {
    throw UserError(image_path.string() + " holds " + std::to_string(images.count()) + " images, but " +
                    label_path.string() + " " + std::to_string(labels.count()) +
                    " labels; take both from the same data set");
  }
  const ImageFormat format{.shape = {1, images.shape[1], images.shape[2]}, .mean = {mean_}, .std = {std_}};
  return {format, images.bytes, checked_labels(labels, static_cast<int64_t>(table_.class_names.size()))};
}

void IdxDataset::set_format(const std::vector<int64_t>& shape) {
  format_ = {.shape = shape, .mean = {mean_}, .std = {std_}};
}

bool IdxDataset::start_without_data(const DataSpec& noted, const Batch&) {
  if (noted.sample_shape.size() != 3) return false;
  set_format(noted.sample_shape);
  return true;
}

std::vector<std::string> IdxDataset::use_inputs(const std::vector<std::filesystem::path>& files) {
  const auto pictures = images::read_new_pictures(files, format_.shape);
  stores_[static_cast<size_t>(Split::kTest)] = images::new_store(format_, pictures);
  return pictures.names;
}

DataSpec IdxDataset::spec() const {
  return {.sample_shape = format_.shape,
          .classes = static_cast<int64_t>(table_.class_names.size()),
          .class_names = table_.class_names};
}

}  // namespace ddprun::idx
