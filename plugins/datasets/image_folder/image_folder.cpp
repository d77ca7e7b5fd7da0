// SPDX-License-Identifier: MIT
// The user's own pictures in one folder per class or listed in a CSV.
#include "csv_list.h"
#include "folder_list.h"
#include "image_dataset.h"

namespace {

namespace images = ddprun::images;

class ImageFolder final : public images::ImageDataset {
 public:
  explicit ImageFolder(ddprun::Options& options) {
    root_ = options.require<std::filesystem::path>(
        "root", "folder with train/<class>/<picture>, and val and test likewise, or with <class>/<picture>");
    csv_ = options.get<std::filesystem::path>(
        "csv", "", "table file,label or file,label,split instead of folders; its files lie below root");
    read(options);
  }

 private:
  images::SampleList list(const ddprun::Progress&) const override {
    return csv_.empty() ? images::list_folders(root_) : images::list_csv(csv_, root_);
  }

  void count_others(const images::SampleList& list, ddprun::DataAccount& account) const override {
    if (!csv_.empty()) images::count_unlisted(root_, list, account);
  }

  std::filesystem::path root_, csv_;
};

}  // namespace

DDPRUN_DATASET(ImageFolder, "image_folder",
               "your own PNG, JPEG and WebP pictures, in one folder per class or listed in a CSV")
