// SPDX-License-Identifier: MIT
// A data set in MNIST's format: the loader that the plugins of this folder share.
#pragma once

#include <ddprun/dataset.h>
#include <ddprun/image_store.h>

#include <array>

#include "data_folder.h"
#include "file_table.h"

namespace ddprun::idx {

class IdxDataset : public Dataset {
 public:
  // `table` must outlive the data set.
  IdxDataset(const FileTable& table, Options& options);

  void prepare(const Progress& progress) override;
  void start() override;
  DataSpec spec() const override;
  int64_t size(Split split) const override { return store(split).size(); }
  Batch get(Split split, std::span<const int64_t> indices) const override { return store(split).gather(indices); }

 private:
  const ImageStore& store(Split split) const { return stores_[static_cast<size_t>(split)]; }
  ImageStore load(const std::filesystem::path& images, const std::filesystem::path& labels) const;

  const FileTable& table_;
  DataFolder folder_;
  int64_t validation_ = 0;
  int64_t limit_train_ = 0;  // 0: all
  double mean_ = 0, std_ = 1;
  std::array<ImageStore, 3> stores_;  // by Split
};

}  // namespace ddprun::idx
