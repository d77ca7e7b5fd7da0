// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with a good dataset, which all of them pass, and one dataset for each thing that
// they find.
#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>
#include <ddprun/random.h>
#include <ddprun/testing/dataset.h>

#include <gmock/gmock.h>
#include <torch/types.h>

#include <atomic>
#include <cmath>
#include <latch>
#include <thread>

namespace ddprun::check {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Images that are a function of their number, and an augmentation that is one of the number, the seed and the epoch.
class Pictures : public Dataset {
 public:
  void start() override {}
  DataSpec spec() const override {
    return {.sample_shape = {1, 3, 3}, .classes = 4, .class_names = {"a", "b", "c", "d"}};
  }
  int64_t size(Split split) const override { return split == Split::kTrain ? 50 : split == Split::kVal ? 9 : 0; }

  Batch get(Split split, std::span<const int64_t> indices) const override {
    const auto index = torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    const auto seed = split == Split::kTrain ? 1U : 2U;
    return {
        .input = uniform_for_samples(seed, 0, index, 9).reshape({-1, 1, 3, 3}), .target = index % 4, .index = index};
  }

  void augment(Batch& batch, const AugmentKey& key) const override {
    batch.input = batch.input + uniform_for_samples(key.seed, key.epoch, batch.index, 1).reshape({-1, 1, 1, 1});
  }
};

template <class Kind>
DatasetTest dataset_test_of() {
  return {.make = [] { return std::make_shared<Kind>(); }};
}

TEST(DatasetChecks, FindNothingWrongWithAGoodDataset) {
  EXPECT_THAT(all(dataset_test_of<Pictures>()), IsEmpty());
  EXPECT_THAT(all(DatasetTest{.make = dataset_test_of<Pictures>().make, .samples = 7}), IsEmpty());
}

// What `change` makes of the batches of a good dataset.
template <class Change>
DatasetTest changed(Change change) {
  struct Changed : Pictures {
    explicit Changed(Change one) : change(one) {}
    Batch get(Split split, std::span<const int64_t> indices) const override {
      auto batch = Pictures::get(split, indices);
      change(batch);
      return batch;
    }
    Change change;
  };
  return {.make = [change] { return std::make_shared<Changed>(change); }};
}

// Bytes that the runner may make batches of.
class Lent : public Dataset {
 public:
  void start() override {
    const auto bytes = std::make_shared<std::vector<uint8_t>>(20 * 9);
    for (size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = static_cast<uint8_t>(37 * i);
    const ImageFormat format{.shape = {1, 3, 3}, .mean = {0.5}, .std = {0.25}};
    store_ = ImageStore(format, {bytes, bytes->data()}, std::vector<int64_t>(20, 1));
  }
  DataSpec spec() const override { return {.sample_shape = {1, 3, 3}, .classes = 4}; }
  int64_t size(Split split) const override { return split == Split::kTrain ? 20 : 0; }
  Batch get(Split, std::span<const int64_t> indices) const override { return store_.gather(indices); }
  void augment(Batch& batch, const AugmentKey& key) const override {
    batch.input = augmentation_.apply(batch.input, batch.index, key, {-2});
  }
  ImageSource images(Split) const override { return {&store_, &augmentation_}; }

 protected:
  ImageStore store_;
  ImageAugmentation augmentation_{.crop_padding = 1, .flip = true};
};

TEST(DatasetImages, AreWhatGetAndAugmentMake) {
  struct OtherSamples : Lent {
    Batch get(Split split, std::span<const int64_t> indices) const override {
      auto batch = Lent::get(split, indices);
      batch.input = batch.input * 2;
      return batch;
    }
  };
  struct OtherAugmentation : Lent {
    void augment(Batch& batch, const AugmentKey&) const override { batch.input = batch.input.flip(3); }
  };
  EXPECT_THAT(all(dataset_test_of<Lent>()), IsEmpty());
  EXPECT_THAT(images(dataset_test_of<OtherSamples>()),
              HasSubstr("split train: get() gives other samples than images()"));
  EXPECT_THAT(images(dataset_test_of<OtherAugmentation>()),
              HasSubstr("augment() does something other than the augmentation"));
}

struct WithANameTooFew : Pictures {
  DataSpec spec() const override { return {.sample_shape = {1, 3, 3}, .classes = 4, .class_names = {"a"}}; }
};

struct WithExtrasOf : Pictures {
  explicit WithExtrasOf(double one) : age(one) {}
  DataSpec spec() const override { return {.sample_shape = {1, 3, 3}, .classes = 4, .extras = {{"age", {}}}}; }
  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = Pictures::get(split, indices);
    batch.extras["age"] = torch::full({batch.size()}, age);
    return batch;
  }
  const double age;
};

TEST(DatasetSamples, AreWhatSpecTellsAndNumbers) {
  const auto with_age = [](double age) {
    return DatasetTest{.make = [age] { return std::make_shared<WithExtrasOf>(age); }};
  };
  EXPECT_EQ(samples(changed([](Batch& batch) { batch.input = batch.input.squeeze(1); })),
            "split train: get() gives samples of [3, 3], but spec() promises samples of [1, 3, 3]");
  EXPECT_THAT(samples(changed([](Batch& batch) { batch.input = batch.input / 0; })), HasSubstr("NaN or infinite"));
  EXPECT_THAT(all(with_age(7)), IsEmpty());
  EXPECT_EQ(samples(with_age(std::nan(""))), "split train: age has NaN among its numbers");
  EXPECT_EQ(samples(dataset_test_of<WithANameTooFew>()), "spec() has 1 class names for 4 classes");
}

struct Unprepared : Pictures {
  void start() override { throw std::runtime_error("no file data.bin"); }
};

TEST(DatasetChecks, NameTheMethodThatThrew) {
  EXPECT_EQ(samples(dataset_test_of<Unprepared>()), "start() threw: no file data.bin");
}

// The second row of a batch is the first one's neighbour.
class CountingOn : public Pictures {
 public:
  Batch get(Split split, std::span<const int64_t> indices) const override {
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < indices.size(); ++i) numbers.push_back(indices[0] + static_cast<int64_t>(i));
    auto batch = Pictures::get(split, numbers);
    batch.index = torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    return batch;
  }
};

// Another one each time it is asked for.
class Drawing : public Pictures {
 public:
  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = Pictures::get(split, indices);
    batch.input = torch::rand_like(batch.input);
    return batch;
  }
};

// Hands out its own memory.
class Lending : public Pictures {
 public:
  void start() override {
    std::vector<int64_t> all(50);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    kept_ = Pictures::get(Split::kTrain, all);
  }
  Batch get(Split split, std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    const bool in_order = split == Split::kTrain && indices.back() - indices.front() == count - 1;
    if (!in_order) return Pictures::get(split, indices);
    return {.input = kept_.input.narrow(0, indices.front(), count),
            .target = kept_.target.narrow(0, indices.front(), count),
            .index = kept_.index.narrow(0, indices.front(), count)};
  }

 private:
  Batch kept_;
};

TEST(DatasetNumbers, AreTheSameSampleInAnyBatch) {
  EXPECT_EQ(same_samples(dataset_test_of<CountingOn>()),
            "sample 0 is not the same in another batch, or where it is asked for twice");
  EXPECT_THAT(same_samples(dataset_test_of<Drawing>()), StartsWith("sample 0 is not the same in another batch"));
  EXPECT_THAT(same_samples(dataset_test_of<Lending>()), HasSubstr("get() must hand out memory of its own"));
}

// Right in the thread that started it, as a file position in a thread_local is.
class AtHomeInOneThread : public Pictures {
 public:
  void start() override { home_ = std::this_thread::get_id(); }
  Batch get(Split split, std::span<const int64_t> indices) const override {
    if (std::this_thread::get_id() != home_) throw std::runtime_error("not started in this thread");
    return Pictures::get(split, indices);
  }

 private:
  std::thread::id home_;
};

// Remembers in a member what it is asked for. The first two of other threads wait for each other there, so that one of
// them is overtaken for certain.
class Overtaken : public Pictures {
 public:
  void start() override { home_ = std::this_thread::get_id(); }
  Batch get(Split split, std::span<const int64_t> indices) const override {
    if (std::this_thread::get_id() == home_ || guests_.fetch_add(1) >= 2) return Pictures::get(split, indices);
    const auto here = first_.fetch_add(1);
    if (here == 0) asked_.assign(indices.begin(), indices.end());
    both_.arrive_and_wait();
    return Pictures::get(split, asked_);
  }

 private:
  std::thread::id home_;
  mutable std::atomic<int> guests_ = 0, first_ = 0;
  mutable std::latch both_{2};
  mutable std::vector<int64_t> asked_;
};

TEST(DatasetThreads, GetWhatOneGets) {
  EXPECT_EQ(same_samples(dataset_test_of<AtHomeInOneThread>()),
            "in one of 4 threads: get() threw: not started in this thread");
  EXPECT_THAT(same_samples(dataset_test_of<Overtaken>()),
              AllOf(StartsWith("in one of 4 threads: sample "), HasSubstr("must change nothing that they share")));
}

class AnotherEachTime : public Pictures {
 public:
  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = Pictures::get(split, indices);
    batch.input = batch.input + made_;
    return batch;
  }

 private:
  static inline int64_t made_so_far = 0;
  int64_t made_ = ++made_so_far;
};

TEST(DatasetMadeAgain, HasTheSameSamples) {
  EXPECT_THAT(same_samples(dataset_test_of<AnotherEachTime>()),
              AllOf(HasSubstr("when the dataset is made again"), HasSubstr("each rank")));
}

// Draws from the thread's generator.
class Dicing : public Pictures {
 public:
  void augment(Batch& batch, const AugmentKey&) const override {
    batch.input = batch.input + torch::rand({batch.size(), 1, 1, 1});
  }
};

// Mixes each sample with the first of its batch.
class Mixing : public Pictures {
 public:
  void augment(Batch& batch, const AugmentKey&) const override {
    batch.input = batch.input + batch.input.slice(0, 0, 1);
  }
};

TEST(DatasetAugmentation, DependsOnTheSampleAlone) {
  EXPECT_THAT(augmentation(dataset_test_of<Dicing>()), HasSubstr("uniform_for_samples()"));
  EXPECT_THAT(augmentation(dataset_test_of<Mixing>()), HasSubstr("in another batch"));
}

TEST(DatasetChecks, TellWhichOfThemFoundWhat) {
  EXPECT_THAT(all(dataset_test_of<Dicing>()), ::testing::ElementsAre(StartsWith("augmentation: augment() changes")));
}

}  // namespace
}  // namespace ddprun::check
