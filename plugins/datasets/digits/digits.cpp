// SPDX-License-Identifier: MIT
// Handwriting-like digits drawn by the program itself, each when it is first read: a data set for a machine without
// files and without a network.
//
// Image n of a split depends only on (seed, split, n), not on the thread or rank; its class is n % 10.
#include "glyphs.h"
#include "new_pictures.h"
#include "painter.h"

#include <ddprun/dataset.h>
#include <ddprun/image_store.h>

#include <array>
#include <span>

namespace {

using ddprun::Split;

constexpr uint64_t kStream = 0x6469676974730000;  // "digits": distinct from other uses of the seed; the split is added
constexpr int64_t kMostPictures = 4'000'000;      // 3 GB

class Digits final : public ddprun::Dataset {
 public:
  explicit Digits(ddprun::Options& options) {
    sizes_[0] = options.get<int64_t>("train_size", 10'000, "training images", {.min = 1, .max = kMostPictures});
    sizes_[1] = options.get<int64_t>("val_size", 1'000, "validation images", {.min = 0, .max = kMostPictures});
    sizes_[2] = options.get<int64_t>("test_size", 2'000, "test images", {.min = 0, .max = kMostPictures});
    seed_ = options.get<int64_t>("seed", 1, "another seed gives other images", {.min = 0});
    hand_.warp =
        options.get<double>("warp", hand_.warp, "how much the handwriting varies; 0: not at all", {.min = 0, .max = 2});
    hand_.noise =
        options.get<double>("noise", hand_.noise, "grain of the paper, share of full ink", {.min = 0, .max = 1});
  }

  void start() override {
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) stores_[slot(split)] = drawn(split);
  }

  ddprun::DataSpec spec() const override {
    return {.sample_shape = format().shape,
            .classes = ddprun::digits::kClasses,
            .class_names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};
  }

  int64_t size(Split split) const override { return stores_[slot(split)].size(); }

  ddprun::Batch get(Split split, std::span<const int64_t> indices) const override {
    return stores_[slot(split)].gather(indices);
  }

  ddprun::ImageSource images(Split split) const override { return {.store = &stores_[slot(split)]}; }

  at::Tensor to_image(const at::Tensor& input) const override {
    return ddprun::ImageStore(format(), nullptr, {}).to_image(input);
  }

  bool start_without_data(const ddprun::DataSpec&, const ddprun::Batch&) override { return true; }

  std::vector<std::string> use_inputs(const std::vector<std::filesystem::path>& files) override {
    const auto pictures = ddprun::images::read_new_pictures(files, format().shape);
    stores_[slot(Split::kTest)] = ddprun::images::new_store(format(), pictures);
    return pictures.names;
  }

 private:
  static ddprun::ImageFormat format() {
    return {.shape = {1, ddprun::digits::kSide, ddprun::digits::kSide}, .mean = {0.122}, .std = {0.252}};
  }

  static size_t slot(Split split) { return static_cast<size_t>(split); }

  ddprun::ImageStore drawn(Split split) const {
    std::vector<int64_t> labels(static_cast<size_t>(sizes_[slot(split)]));
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i) % ddprun::digits::kClasses;
    return {format(), std::move(labels), [seed = seed_, hand = hand_, split](int64_t image, std::span<uint8_t> bytes) {
              ddprun::RandomStream random(static_cast<uint64_t>(seed), kStream + slot(split),
                                          static_cast<uint32_t>(image));
              ddprun::digits::paint_digit(static_cast<int>(image % ddprun::digits::kClasses), hand, random,
                                          bytes.first<ddprun::digits::kPixels>());
            }};
  }

  std::array<int64_t, 3> sizes_{};
  int64_t seed_ = 1;
  ddprun::digits::Hand hand_;
  std::array<ddprun::ImageStore, 3> stores_;
};

}  // namespace

DDPRUN_DATASET(Digits, "digits", "handwriting-like 28x28 digits, drawn by the program: no files needed")
