// SPDX-License-Identifier: MIT
// Encoded pictures with a class each, decoded when they are needed. Random parts of them are drawn while decoding.
#pragma once

#include "image_file.h"
#include "random_crop.h"
#include "sample_list.h"

#include <ddprun/dataset.h>
#include <ddprun/folds.h>
#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::images {

class ImageDataset : public Dataset {
 public:
  void prepare(const Progress& progress) override;

  // `ddprun check` reads the headers as a run does.
  bool is_prepared() const override { return true; }

  void start() override;
  DataSpec spec() const override;
  int64_t size(Split split) const override { return static_cast<int64_t>(list_.of(split).size()); }
  Batch get(Split split, std::span<const int64_t> indices) const override;
  Batch draw(std::span<const int64_t> indices, const AugmentKey& key) const override;
  at::Tensor to_image(const at::Tensor& input) const override;
  at::Tensor labels(Split split) const override;
  bool start_without_data(const DataSpec& noted, const Batch& form) override;
  std::vector<std::string> use_inputs(const std::vector<std::filesystem::path>& files) override;
  std::string sample_name(Split split, int64_t index) const override;
  const ImageFormat* image_format() const override { return &format_; }
  void augment(Batch& batch, const AugmentKey& key) const override;
  DataAccount account() const override;

 protected:
  // Reads the options but those of list(): what is held out, the form of an image, its augmentation.
  void read(Options& options);

  const SampleList& pictures() const { return list_; }

 private:
  // Finds the pictures, in the same order in each process. Throws UserError with the place that is wrong.
  virtual SampleList list(const Progress& progress) const = 0;

  // Counts what lies there and the list does not know of.
  virtual void count_others(const SampleList&, DataAccount&) const {}

  void leave_out_unreadable();

  // Finds what cannot be read.
  Unreadable unreadable(const SampleList& list, const std::function<void(int64_t, int64_t)>& progress) const;

  // Makes the batch of picture(sample, number) for each number, [C, size, size] uint8.
  template <class Picture>
  Batch gathered(Split split, std::span<const int64_t> indices, Picture picture) const;
  at::Tensor whole_picture(const Sample& sample) const;
  at::Tensor random_part(const Sample& sample, int64_t index, const AugmentKey& key) const;

  void read_format(Options& options);
  void read_crop(Options& options);
  static std::vector<double> numbers(Options& options, const std::string& name, const std::vector<double>& fallback,
                                     const std::string& help, Range<double> range);

  double val_fraction_ = 0, test_fraction_ = 0;
  Fold fold_;
  int64_t seed_ = 1;
  bool skip_unreadable_ = false, decode_all_ = false;
  int64_t resize_ = 0;
  ImageFormat format_;
  Reading reading_;
  std::optional<CropRange> crop_;
  ImageAugmentation augmentation_;
  ImageAugmentation afterwards_;  // what draw() leaves of it to augment()
  bool pads_ = false;             // flips and erasing come after the crop out of the padded picture
  SampleList list_;
};

}  // namespace ddprun::images
