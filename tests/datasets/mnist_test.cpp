// SPDX-License-Identifier: MIT
#include "idx_writer.h"
#include "plugin_under_test.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <thread>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<int64_t> count_up(int64_t size) {
  std::vector<int64_t> numbers(static_cast<size_t>(size));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

class Mnist : public ::testing::Test {
 protected:
  Mnist() {
    put("train-images-idx3-ubyte", image_file(50));
    put("train-labels-idx1-ubyte", label_file(50));
    put("t10k-images-idx3-ubyte", image_file(20));
    put("t10k-labels-idx1-ubyte", label_file(20));
  }

  void put(const std::string& name, const std::string& bytes) { write_file(folder_ / name, bytes); }

  std::shared_ptr<Dataset> load(Settings settings = {}) {
    settings.insert(settings.begin(), {{"root", folder_.path()}, {"validation", "10"}});
    return load_dataset(MNIST_PLUGIN, settings);
  }

  std::string problem(const Settings& settings = {}) {
    return message_of<UserError>([&] { load(settings)->start(); });
  }

  TestFolder folder_;
};

TEST_F(Mnist, HoldsOutTheLastTrainingImages) {
  const auto data = load();
  data->start();
  EXPECT_EQ(data->size(Split::kTrain), 40);
  EXPECT_EQ(data->size(Split::kVal), 10);
  EXPECT_EQ(data->size(Split::kTest), 20);
  const auto first = data->get(Split::kVal, std::vector<int64_t>{3});
  EXPECT_EQ(first.target.item<int64_t>(), 43 % 10);
  EXPECT_NEAR(first.input[0][0][0][0].item<float>(), (43 / 255.0 - 0.1307) / 0.3081, 1e-6);
}

TEST_F(Mnist, IsFoundWhereTorchvisionKeepsIt) {
  const std::vector<std::filesystem::path> names{"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                                 "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  for (const auto& [plugin, kept] : {std::pair{MNIST_PLUGIN, "MNIST"}, {FASHION_MNIST_PLUGIN, "FashionMNIST"}}) {
    const auto raw = folder_ / kept / "raw";
    std::filesystem::create_directories(raw);
    for (const auto& name : names) std::filesystem::copy_file(folder_ / name, raw / name);
  }
  for (const auto& name : names) std::filesystem::remove(folder_ / name);
  for (const auto& [plugin, kept] : {std::pair{MNIST_PLUGIN, "MNIST"}, {FASHION_MNIST_PLUGIN, "FashionMNIST"}}) {
    for (const auto& root : {folder_.path(), folder_ / kept, folder_ / kept / "raw"}) {
      const auto data = load_dataset(plugin, {{"root", root}, {"validation", "10"}});
      EXPECT_TRUE(data->is_prepared());
      data->start();
      EXPECT_EQ(data->size(Split::kTrain), 40) << root;
    }
  }
}

TEST_F(Mnist, IsNotPreparedWhereItWouldBeDownloaded) {
  EXPECT_TRUE(load()->is_prepared());
  std::filesystem::remove(folder_ / "train-labels-idx1-ubyte");
  EXPECT_FALSE(load()->is_prepared());
  EXPECT_TRUE(load({{"download", "false"}})->is_prepared()) << "start() says what is missing";
}

TEST_F(Mnist, TellsTheShapeAndTheClasses) {
  const auto data = load();
  data->start();
  EXPECT_EQ(data->spec().sample_shape, (std::vector<int64_t>{1, 4, 3}));
  EXPECT_EQ(data->spec().classes, 10);
  EXPECT_EQ(data->spec().class_names[3], "3");
}

TEST_F(Mnist, TakesItsNumbersFromTheOptions) {
  const auto data = load({{"validation", "0"}, {"limit_train", "30"}, {"mean", "0"}, {"std", "1"}});
  data->start();
  EXPECT_EQ(data->size(Split::kTrain), 30);
  EXPECT_EQ(data->size(Split::kVal), 0);
  const auto account = data->account();
  ASSERT_EQ(account.left_alone.size(), 1U);
  EXPECT_EQ(account.used, 30 + data->size(Split::kTest));
  EXPECT_EQ(account.left_alone[0].count, 50 - 30);
  EXPECT_NEAR(data->get(Split::kTrain, std::vector<int64_t>{9}).input[0][0][0][0].item<float>(), 9 / 255.0, 1e-7);
}

TEST_F(Mnist, GivesTheSameFromPackedFiles) {
  const auto raw = load();
  raw->start();
  const auto expected = raw->get(Split::kTest, count_up(20));
  for (const auto* name : {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    write_packed(folder_ / (std::string(name) + ".gz"), read_file(folder_ / name));
    std::filesystem::remove(folder_ / name);
  }
  const auto packed = load();
  packed->start();
  EXPECT_TRUE(packed->get(Split::kTest, count_up(20)).input.equal(expected.input));
}

TEST_F(Mnist, NamesAFileThatIsNotThere) {
  std::filesystem::remove(folder_ / "t10k-labels-idx1-ubyte");
  EXPECT_THAT(problem(), AllOf(HasSubstr("mnist: the files are not there"), HasSubstr(folder_.path().string()),
                               HasSubstr("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6")));
}

TEST_F(Mnist, NamesADifferentNumberOfLabels) {
  put("train-labels-idx1-ubyte", label_file(49));
  EXPECT_THAT(problem(), AllOf(HasSubstr("train-images-idx3-ubyte holds 50 images"), HasSubstr("49 labels")));
}

TEST_F(Mnist, NamesALabelOutOfRange) {
  auto labels = label_file(20);
  labels[8 + 7] = 10;
  put("t10k-labels-idx1-ubyte", labels);
  EXPECT_THAT(problem(), HasSubstr("t10k-labels-idx1-ubyte: label 10 of image 7, expected 0 to 9"));
}

TEST_F(Mnist, NamesImagesOfAnotherSize) {
  put("t10k-images-idx3-ubyte", image_file(20, 4, 4));
  EXPECT_THAT(problem(), HasSubstr("t10k-images-idx3-ubyte: images of 4 x 4, but those of"));
}

TEST_F(Mnist, NamesATrainingSetThatIsTooSmall) {
  EXPECT_THAT(problem({{"validation", "50"}}), HasSubstr("holds 50 images: too few for validation: 50"));
  EXPECT_THAT(problem({{"limit_train", "41"}}), HasSubstr("too few for validation: 10 and limit_train: 41"));
}

TEST_F(Mnist, FashionMnistIsTheSameLoaderWithItsOwnNames) {
  const auto data = load_dataset(FASHION_MNIST_PLUGIN, {{"root", folder_.path()}, {"validation", "0"}});
  data->start();
  EXPECT_EQ(data->spec().class_names[9], "ankle boot");
  EXPECT_NEAR(data->get(Split::kTest, std::vector<int64_t>{0}).input[0][0][0][0].item<float>(), -0.2860 / 0.3530, 1e-6);
}

class RealMnist : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::getenv("DDPRUN_DATA")) GTEST_SKIP() << "DDPRUN_DATA is not set: no real MNIST here";
    data_ = load_dataset(MNIST_PLUGIN, {{"validation", "0"}, {"download", "false"}, {"mean", "0"}, {"std", "1"}});
    data_->start();
  }

  std::shared_ptr<Dataset> data_;
};

TEST_F(RealMnist, IsTheOneEverybodyKnows) {
  ASSERT_EQ(data_->size(Split::kTrain), 60'000);
  ASSERT_EQ(data_->size(Split::kTest), 10'000);
  const auto train = data_->get(Split::kTrain, count_up(60'000));
  EXPECT_TRUE(train.target.slice(0, 0, 5).equal(at::tensor({5, 0, 4, 1, 9}, at::kLong)));
  const auto histogram = at::tensor({5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}, at::kLong);
  EXPECT_TRUE(train.target.bincount().equal(histogram));
  EXPECT_NEAR(train.input.mean().item<float>(), 0.1307, 1e-4);
  EXPECT_NEAR(train.input.std().item<float>(), 0.3081, 1e-4);
}

TEST_F(RealMnist, ThreadsGetWhatOneThreadGets) {
  std::vector<int64_t> order(8000);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i * 7919 % 60'000);
  const auto expected = data_->get(Split::kTrain, order);
  std::vector<Batch> parts(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < parts.size(); ++t) {
    threads.emplace_back([&, t] { parts[t] = data_->get(Split::kTrain, std::span(order).subspan(2000 * t, 2000)); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(at::cat({parts[0].input, parts[1].input, parts[2].input, parts[3].input}).equal(expected.input));
  EXPECT_TRUE(at::cat({parts[0].target, parts[1].target, parts[2].target, parts[3].target}).equal(expected.target));
}

}  // namespace
}  // namespace ddprun::test
