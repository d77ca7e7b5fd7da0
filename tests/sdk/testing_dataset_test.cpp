// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with a good dataset, which all of them pass, and a fault for each thing that they
// find.
#include "support/error_of.h"

#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>
#include <ddprun/random.h>
#include <ddprun/testing/dataset.h>

#include <torch/types.h>

#include <atomic>
#include <cmath>
#include <latch>
#include <numeric>
#include <thread>

namespace ddprun::check {
namespace {

using Indices = std::span<const int64_t>;

// Images that are a function of their number, and an augmentation that is one of the number, the seed and the epoch.
// A fault takes the place of one of its hooks.
class Pictures : public Dataset {
 public:
  std::function<void()> starts = [] {};
  std::function<Batch(Split, Indices)> gets = good;
  std::function<void(Batch&, const AugmentKey&)> augments = [](Batch& batch, const AugmentKey& key) {
    batch.input = batch.input + uniform_for_samples(key.seed, key.epoch, batch.index, 1).reshape({-1, 1, 1, 1});
  };
  DataSpec promised{.sample_shape = {1, 3, 3}, .classes = 4, .class_names = {"a", "b", "c", "d"}};

  static Batch good(Split split, Indices indices) {
    const auto index = torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    const auto seed = split == Split::kTrain ? 1U : 2U;
    return {
        .input = uniform_for_samples(seed, 0, index, 9).reshape({-1, 1, 3, 3}), .target = index % 4, .index = index};
  }

  // Spoils what get() gives.
  void changes(const std::function<void(Batch&)>& change) {
    gets = [change](Split split, Indices indices) {
      auto batch = good(split, indices);
      change(batch);
      return batch;
    };
  }

  void start() override { starts(); }
  DataSpec spec() const override { return promised; }
  int64_t size(Split split) const override { return split == Split::kTrain ? 50 : split == Split::kVal ? 9 : 0; }
  Batch get(Split split, Indices indices) const override { return gets(split, indices); }
  void augment(Batch& batch, const AugmentKey& key) const override { augments(batch, key); }
};

using SpoilData = std::function<void(Pictures&)>;

DatasetTest data_test(const SpoilData& spoil) {
  return {.make = [spoil] {
    auto dataset = std::make_shared<Pictures>();
    spoil(*dataset);
    return dataset;
  }};
}

// Extras of this number.
void with_age(Pictures& data, double age) {
  data.promised = {.sample_shape = {1, 3, 3}, .classes = 4, .extras = {{"age", {}}}};
  data.changes([age](Batch& batch) { batch.extras["age"] = torch::full({batch.size()}, age); });
}

TEST(DatasetChecks, FindNothingWrongWithAGoodDataset) {
  EXPECT_EQ(all(data_test([](Pictures&) {})), std::vector<std::string>());
  EXPECT_EQ(all(data_test([](Pictures& data) { with_age(data, 7); })), std::vector<std::string>());
  EXPECT_EQ(all(DatasetTest{.make = data_test([](Pictures&) {}).make, .samples = 7}), std::vector<std::string>());
}

// The second row of a batch is the first one's neighbour.
void count_on(Pictures& data) {
  data.gets = [](Split split, Indices indices) {
    std::vector<int64_t> numbers(indices.size());
    std::iota(numbers.begin(), numbers.end(), indices[0]);
    auto batch = Pictures::good(split, numbers);
    batch.index = torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    return batch;
  };
}

// Hands out its own memory.
void lend(Pictures& data) {
  std::vector<int64_t> all(50);
  std::iota(all.begin(), all.end(), 0);
  data.gets = [kept = Pictures::good(Split::kTrain, all)](Split split, Indices indices) {
    const auto count = static_cast<int64_t>(indices.size());
    const bool in_order = split == Split::kTrain && indices.back() - indices.front() == count - 1;
    if (!in_order) return Pictures::good(split, indices);
    return Batch{.input = kept.input.narrow(0, indices.front(), count),
                 .target = kept.target.narrow(0, indices.front(), count),
                 .index = kept.index.narrow(0, indices.front(), count)};
  };
}

// Right in the thread that started it, as a file position in a thread_local is.
void stay_at_home(Pictures& data) {
  const auto home = std::make_shared<std::thread::id>();
  data.starts = [home] { *home = std::this_thread::get_id(); };
  data.gets = [home](Split split, Indices indices) {
    if (std::this_thread::get_id() != *home) throw std::runtime_error("not started in this thread");
    return Pictures::good(split, indices);
  };
}

// Remembers what it is asked for. The first two of other threads wait for each other there, so that one of them is
// overtaken for certain.
void be_overtaken(Pictures& data) {
  struct Shared {
    std::thread::id home = std::this_thread::get_id();
    std::atomic<int> guests = 0, first = 0;
    std::latch both{2};
    std::vector<int64_t> asked;
  };
  data.gets = [shared = std::make_shared<Shared>()](Split split, Indices indices) {
    if (std::this_thread::get_id() == shared->home || shared->guests.fetch_add(1) >= 2)
      return Pictures::good(split, indices);
    if (shared->first.fetch_add(1) == 0) shared->asked.assign(indices.begin(), indices.end());
    shared->both.arrive_and_wait();
    return Pictures::good(split, shared->asked);
  };
}

TEST(DatasetChecks, FindEachFault) {
  int made = 0;
  struct Fault {
    std::string (*check)(const DatasetTest&);
    SpoilData spoil;
    std::string words;
  };
  const std::vector<Fault> faults{
      {samples, [](Pictures& data) { data.starts = [] { throw std::runtime_error("no file data.bin"); }; },
       "start() threw: no file data.bin"},
      {samples, [](Pictures& data) { data.changes([](Batch& batch) { batch.input = batch.input.squeeze(1); }); },
       "split train: get() gives samples of [3, 3], but spec() promises samples of [1, 3, 3]"},
      {samples, [](Pictures& data) { data.changes([](Batch& batch) { batch.input = batch.input / 0; }); },
       "NaN or infinite"},
      {samples, [](Pictures& data) { with_age(data, std::nan("")); }, "split train: age has NaN among its numbers"},
      {samples, [](Pictures& data) { data.promised.class_names = {"a"}; }, "spec() has 1 class names for 4 classes"},
      {same_samples, count_on, "sample 0 is not the same in another batch, or where it is asked for twice"},
      {same_samples,
       [](Pictures& data) { data.changes([](Batch& batch) { batch.input = torch::rand_like(batch.input); }); },
       "sample 0 is not the same in another batch"},
      {same_samples, lend, "get() must hand out memory of its own"},
      {same_samples, stay_at_home, "in one of 4 threads: get() threw: not started in this thread"},
      {same_samples, be_overtaken, "in one of 4 threads: sample ... must change nothing that they share"},
      {same_samples,
       [&](Pictures& data) { data.changes([number = ++made](Batch& batch) { batch.input = batch.input + number; }); },
       "when the dataset is made again ... each rank"},
      {augmentation,
       [](Pictures& data) {
         data.augments = [](Batch& batch, const AugmentKey&) {
           batch.input = batch.input + torch::rand({batch.size(), 1, 1, 1});
         };
       },
       "uniform_for_samples()"},
      {augmentation,
       [](Pictures& data) {
         data.augments = [](Batch& batch, const AugmentKey&) {
           batch.input = batch.input + batch.input.slice(0, 0, 1);
         };
       },
       "in another batch"}};
  for (const auto& fault : faults) EXPECT_TRUE(says(fault.check(data_test(fault.spoil)), fault.words));
  const auto found = all(data_test(faults.back().spoil));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(says(found[0], "augmentation: augment() "));
}

// Bytes that the runner may make batches of; one factor is wrong.
class Lent : public Dataset {
 public:
  Lent(double of_get, double of_augment) : of_get_(of_get), of_augment_(of_augment) {}
  void start() override {
    const auto bytes = std::make_shared<std::vector<uint8_t>>(20 * 9);
    for (size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = static_cast<uint8_t>(37 * i);
    const ImageFormat format{.shape = {1, 3, 3}, .mean = {0.5}, .std = {0.25}};
    store_ = ImageStore(format, {bytes, bytes->data()}, std::vector<int64_t>(20, 1));
  }
  DataSpec spec() const override { return {.sample_shape = {1, 3, 3}, .classes = 4}; }
  int64_t size(Split split) const override { return split == Split::kTrain ? 20 : 0; }
  Batch get(Split, Indices indices) const override {
    auto batch = store_.gather(indices);
    batch.input = batch.input * of_get_;
    return batch;
  }
  void augment(Batch& batch, const AugmentKey& key) const override {
    batch.input = augmentation_.apply(batch.input, batch.index, key, {-2}) * of_augment_;
  }
  ImageSource images(Split) const override { return {&store_, &augmentation_}; }

 private:
  ImageStore store_;
  ImageAugmentation augmentation_{.crop_padding = 1, .flip = true};
  double of_get_, of_augment_;
};

TEST(DatasetImages, AreWhatGetAndAugmentMake) {
  const auto lent = [](double of_get, double of_augment) {
    return DatasetTest{.make = [=] { return std::make_shared<Lent>(of_get, of_augment); }};
  };
  EXPECT_EQ(all(lent(1, 1)), std::vector<std::string>());
  EXPECT_TRUE(says(images(lent(2, 1)), "split train: get() gives other samples than images()"));
  EXPECT_TRUE(says(images(lent(1, 2)), "augment() does something other than the augmentation"));
}

}  // namespace
}  // namespace ddprun::check
