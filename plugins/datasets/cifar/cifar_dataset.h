// SPDX-License-Identifier: MIT
// A data set in CIFAR's binary format: the loader that the plugins of this folder share.
#pragma once

#include "cifar_table.h"

#include <ddprun/data_digest.h>
#include <ddprun/dataset.h>
#include <ddprun/download.h>
#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>

#include <array>
#include <string>
#include <vector>

namespace ddprun::cifar {

class CifarDataset : public Dataset {
 public:
  // `table` must outlive the dataset; `kind` is the index in table.labels of the labels to learn.
  CifarDataset(const CifarTable& table, size_t kind, Options& options);

  void prepare(const Progress& progress) override;
  bool is_prepared() const override { return folder_.needs_no_download(); }
  void start() override;
  DataSpec spec() const override;
  DataAccount account() const override { return account_of_images(stores_, beyond_limit_); }
  int64_t size(Split split) const override { return store(split).size(); }
  Batch get(Split split, std::span<const int64_t> indices) const override { return store(split).gather(indices); }
  Batch draw(std::span<const int64_t> indices, const AugmentKey& key) const override;
  ImageSource images(Split split) const override;
  at::Tensor to_image(const at::Tensor& input) const override {
    return ImageStore(format_, nullptr, {}).to_image(input);
  }
  bool start_without_data(const DataSpec& noted, const Batch& form) override;
  std::vector<std::string> use_inputs(const std::vector<std::filesystem::path>& files) override;
  void augment(Batch& batch, const AugmentKey& key) const override;

 private:
  const ImageStore& store(Split split) const { return stores_[static_cast<size_t>(split)]; }

  const CifarTable& table_;
  const size_t kind_;
  DataFolder folder_;
  int64_t validation_ = 0;
  int64_t limit_train_ = 0;   // 0: all
  int64_t beyond_limit_ = 0;  // images that it leaves out
  ImageFormat format_;
  ImageAugmentation augmentation_{.crop_padding = 4, .flip = true};
  std::vector<std::string> class_names_;
  std::array<ImageStore, 3> stores_;  // by Split
};

}  // namespace ddprun::cifar
