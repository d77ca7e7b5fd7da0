// SPDX-License-Identifier: MIT
#include "data/checked_split.h"

#include "data/loader.h"
#include "support/error_of.h"
#include "support/toy.h"

#include <ddprun/image_store.h>

#include <functional>

namespace ddprun {
namespace {

using testing::MaskedToyDataset;
using testing::ToyDataset;

// What a good dataset's batch of the samples 3, 5 and 9 is found to be after a change.
using Change = std::function<void(Batch&)>;
std::string found(const Change& change, const Dataset& dataset) {
  const std::vector<int64_t> asked{3, 5, 9};
  auto batch = dataset.get(Split::kTrain, asked);
  change(batch);
  return error_of([&] { CheckedSplit(dataset, Split::kTrain).check(batch, asked); });
}

TEST(CheckedSplit, NamesWhatIsOtherwiseThanAGoodDatasetHasIt) {
  expect_refused<Change>(
      [](const Change& change) { return found(change, ToyDataset(20, 0)); },
      {{[](Batch&) {}, ""},
       {[](Batch& batch) { batch = part_of_batch(batch, {0, 2}); },
        "split train: get() was asked for 3 samples, and gives input of 2"},
       {[](Batch& batch) { batch.target = batch.target.slice(0, 1); }, "gives target of 2"},
       {[](Batch& batch) { batch.index.reset(); }, "leaves Batch::index undefined"},
       {[](Batch& batch) { batch.index = batch.index.flip(0); }, "an index that is not the numbers"},
       {[](Batch& batch) { batch.index = batch.index.to(at::kInt); }, "as int64"},
       {[](Batch& batch) { batch.input = batch.input.to(at::kDouble); }, "of type Double, expected Float"},
       {[](Batch& batch) { batch.input = batch.input.unsqueeze(1); }, "samples of [1, 8] ... samples of [8]"},
       {[](Batch& batch) { batch.target = batch.target.to(at::kInt); }, "target of type Int, expected Long"},
       {[](Batch& batch) { batch.target[1] = 3; }, "sample 5 has the class 3, but spec() promises 3 classes, 0 to 2"},
       {[](Batch& batch) { batch.target[2] = -1; }, "sample 9 has the class -1"},
       {[](Batch& batch) { batch.target = at::zeros({3}); }, ""},                       // 0 or 1, for bce
       {[](Batch& batch) { batch.target = at::full({3, 4, 4}, 255, at::kLong); }, ""},  // a class for each pixel
       {[](Batch& batch) { batch.extras["mask"] = at::zeros({3}); },
        "split train: get() gives the extras mask, but spec() promises none"}});
}

TEST(CheckedSplit, HoldsThePromiseOfExtras) {
  expect_refused<Change>([](const Change& change) { return found(change, MaskedToyDataset(20, 0)); },
                         {{[](Batch&) {}, ""},
                          {[](Batch& batch) { batch.extras.erase("mask"); },
                           "split train: get() gives the extras factor, but spec() promises factor, mask"},
                          {[](Batch& batch) { batch.extras["other"] = at::zeros({3}); },
                           "split train: get() gives the extras factor, mask, other, but spec() promises factor, mask"},
                          {[](Batch& batch) { batch.extras["mask"] = at::zeros({3, 7}); },
                           "split train: get() gives mask of [7] for a sample, but spec() promises [8]"},
                          {[](Batch& batch) { batch.extras["factor"] = at::zeros({2}); },
                           "split train: get() was asked for 3 samples, and gives factor of 2"},
                          {[](Batch& batch) { batch.extras["factor"] = at::zeros({3}, at::kDouble); },
                           "factor of type Double, expected Float, Long or Bool"},
                          {[](Batch& batch) { batch.extras["factor"].reset(); }, "Batch::factor undefined"}});
}

// Pictures with a class for each pixel; training flips them, or cuts a column off, and forgets the classes.
class SegmentedPictures : public ToyDataset {
 public:
  using ToyDataset::ToyDataset;
  DataSpec spec() const override { return {.sample_shape = {1, 2, 3}, .classes = 3}; }
  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = ToyDataset::get(split, indices);
    batch.input = at::zeros({batch.size(), 1, 2, 3});
    batch.target = at::ones({batch.size(), 2, 3}, at::kLong);
    return batch;
  }
  void augment(Batch& batch, const AugmentKey& key) const override {
    batch.input = key.epoch == 0 ? batch.input.flip(3) : batch.input.slice(3, 1);
  }
};

TEST(CheckedSplit, LooksAtTheClassesOfPixelsAndNoticesThatAugmentationCutsWithoutThem) {
  const SegmentedPictures dataset(20, 0);
  EXPECT_EQ(found([](Batch& batch) { batch.target[1][0][2] = -100; }, dataset), "");
  EXPECT_EQ(found([](Batch& batch) { batch.target[1][0][2] = 3; }, dataset),
            "split train: sample 5 has the class 3, but spec() promises 3 classes, 0 to 2");
  const CheckedSplit split(dataset, Split::kTrain);
  const auto augmented = [&](int64_t epoch) {
    auto batch = split.get(std::vector<int64_t>{1, 2});
    return error_of([&] { split.augment(batch, {.epoch = epoch}); });
  };
  EXPECT_EQ(augmented(0), "");
  EXPECT_EQ(augmented(1),
            "dataset: split train: augment() gives pictures of [1, 2, 2] with targets of [2, 3]: what moves the pixels "
            "must move their classes alike");
}

class LosingExtras : public MaskedToyDataset {
 public:
  using MaskedToyDataset::MaskedToyDataset;
  void augment(Batch& batch, const AugmentKey&) const override { batch.extras.erase("factor"); }
};

TEST(CheckedSplit, ExpectsTheExtrasOfAnAugmentedBatchToo) {
  const LosingExtras dataset(20, 0);
  auto batch = dataset.get(Split::kTrain, std::vector<int64_t>{3});
  EXPECT_TRUE(says(error_of([&] { CheckedSplit(dataset, Split::kTrain).augment(batch, {}); }),
                   "augment() gives the extras mask, but spec() promises factor, mask"));
}

class Symbols : public ToyDataset {
 public:
  using ToyDataset::ToyDataset;
  DataSpec spec() const override { return {.sample_shape = {4}, .classes = 3}; }
};

TEST(CheckedSplit, LetsSymbolsBeLeftOut) {
  const Symbols dataset(20, 0);
  const std::vector<int64_t> asked{7, 8};
  Batch batch{
      .input = at::ones({2, 4}, at::kLong), .target = at::full({2, 4}, -100, at::kLong), .index = at::tensor(asked)};
  const CheckedSplit promises(dataset, Split::kTrain);
  EXPECT_EQ(error_of([&] { promises.check(batch, asked); }), "");
  batch.target[1][0] = 3;
  EXPECT_TRUE(says(error_of([&] { promises.check(batch, asked); }), "sample 8 has the class 3"));
}

TEST(CheckedSplit, HoldsLentImages) {
  const auto bytes = std::make_shared<std::vector<uint8_t>>(20 * 8);
  const auto lent = [&](std::vector<int64_t> labels, int64_t side = 8) {
    return ImageStore({.shape = {1, 1, side}, .mean = {0}, .std = {1}}, {bytes, bytes->data()}, std::move(labels));
  };
  struct Pictures : ToyDataset {
    using ToyDataset::ToyDataset;
    DataSpec spec() const override { return {.sample_shape = {1, 1, 8}, .classes = 3}; }
  };
  const Pictures dataset(3, 0);
  const auto problem = [&](const ImageStore& store) {
    return error_of([&] { CheckedSplit(dataset, Split::kTrain).check(store); });
  };
  EXPECT_EQ(problem(lent({0, 1, 2})), "");
  EXPECT_TRUE(says(problem(lent({0, 1, 3})), "sample 2 has the class 3"));
  EXPECT_TRUE(says(problem(lent({0, 1})), "provides 2 images, but size() promises 3"));
  EXPECT_TRUE(says(problem(lent({0, 1, 2}, 4)), "provides images of [1, 1, 4]"));
}

// Forgets a sample in training.
class Forgetful : public ToyDataset {
 public:
  using ToyDataset::ToyDataset;
  Batch get(Split split, std::span<const int64_t> indices) const override {
    return ToyDataset::get(split, split == Split::kTrain ? indices.subspan(1) : indices);
  }
};

TEST(CheckedSplit, IsLookedAtInEachBatch) {
  TrainLoader source(std::make_shared<Forgetful>(40, 0), {.global_batch = 8}, 1, {0, 1}, at::kCPU, 0);
  EXPECT_TRUE(says(error_of([&] { source.next(); }), "dataset: split train: get() was asked for 8 samples"));
}

}  // namespace
}  // namespace ddprun
