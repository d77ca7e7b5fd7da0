// SPDX-License-Identifier: MIT
// Encoded pictures with a class each, decoded when they are needed: what the datasets of folders and of shards share.
#pragma once

#include "sample_list.h"

#include <ddprun/dataset.h>
#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>

namespace ddprun::images {

class ImageDataset : public Dataset {
 public:
  void prepare(const Progress& progress) override;

  // Checking each picture's header can wait for a run.
  bool is_prepared() const override { return true; }

  void start() override;
  DataSpec spec() const override;
  int64_t size(Split split) const override { return static_cast<int64_t>(list_.of(split).size()); }
  Batch get(Split split, std::span<const int64_t> indices) const override;
  at::Tensor to_image(const at::Tensor& input) const override;
  at::Tensor labels(Split split) const override;
  void augment(Batch& batch, const AugmentKey& key) const override;

 protected:
  // Reads the options of both: what is held out, the form of an image, its augmentation.
  void read(Options& options);

 private:
  // Finds the pictures, in the same order in each process. Throws UserError with the place that is wrong.
  virtual SampleList list(const Progress& progress) const = 0;

  void read_format(Options& options);
  static std::vector<double> numbers(Options& options, const std::string& name, const std::vector<double>& fallback,
                                     const std::string& help, Range<double> range);

  double val_fraction_ = 0, test_fraction_ = 0;
  int64_t seed_ = 1;
  bool skip_unreadable_ = false;
  int64_t resize_ = 0;
  ImageFormat format_;
  ImageAugmentation augmentation_;
  SampleList list_;
};

}  // namespace ddprun::images
