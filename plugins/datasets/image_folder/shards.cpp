// SPDX-License-Identifier: MIT
// Pictures in tar files, WebDataset's shards, read in any order: an exact shuffle over all of them, and exact resumes.
#include "image_dataset.h"
#include "shard.h"

#include <ddprun/data_digest.h>

namespace {

namespace images = ddprun::images;
using ddprun::Split;

class ImageShards final : public images::ImageDataset {
 public:
  explicit ImageShards(ddprun::Options& options) {
    patterns_[0] = options.require<std::filesystem::path>(
        "train", "tar files of KEY.jpg, .jpeg, .png or .webp, and KEY.cls: train-*.tar, or train-{000000..000127}.tar");
    patterns_[1] = options.get<std::filesystem::path>("val", "", "the same for val");
    patterns_[2] = options.get<std::filesystem::path>("test", "", "the same for test");
    read(options);
  }

  // Before a run no index is believed: all that they point to is compared.
  void prepare(const ddprun::Progress& progress) override {
    images::list_shards(shards(), progress, images::Compare::kAll);
    ImageDataset::prepare(progress);
  }

  // A sample is two members: a picture and its class.
  ddprun::DataAccount account() const override {
    ddprun::DataAccount account{.unit = "member", .left_alone = pictures().account.left_alone};
    ddprun::DataDigest digest;
    for (const auto& name : pictures().class_names) digest.add(name);
    for (const auto& samples : pictures().splits) {
      account.used += 2 * static_cast<int64_t>(samples.size());
      digest.add(static_cast<int64_t>(samples.size()));
      for (const auto& [picture, label] : samples) {
        digest.add(static_cast<int64_t>(picture.check));  // of the names and sizes
        digest.add(label);
      }
    }
    for (auto& one : account.left_alone) {
      if (one.reason == "unreadable") one.count *= 2;
    }
    account.digest = digest.hex();
    return account;
  }

 private:
  std::array<images::Shards, 3> shards() const {
    std::array<images::Shards, 3> splits;
    for (size_t split = 0; split < splits.size(); ++split) {
      if (!patterns_[split].empty()) splits[split] = images::find_shards(patterns_[split]);
    }
    return splits;
  }

  images::SampleList list(const ddprun::Progress& progress) const override {
    return images::list_shards(shards(), progress);
  }

  std::array<std::filesystem::path, 3> patterns_;  // by Split
};

}  // namespace

DDPRUN_DATASET(ImageShards, "shards", "your own pictures in tar files, as WebDataset writes them")
