// SPDX-License-Identifier: MIT
#include "idx_file.h"
#include "plugin_under_test.h"
#include "support/written_files.h"

#include <ATen/ATen.h>

namespace ddprun::test {
namespace {

using idx::IdxKind;

class IdxFile : public FolderTest {
 protected:
  static std::string problem_of(const std::filesystem::path& path, IdxKind kind) {
    return error_of([&] { idx::read_idx(path, kind); });
  }

  // Of these bytes, raw and packed.
  void expect_refused_alike(IdxKind kind, const Refusals<std::string>& rows) const {
    for (const bool packed : {false, true}) {
      const auto with = [&](const std::string& bytes) {
        const auto path = packed ? write_packed(folder_ / "packed", bytes) : write_bytes(folder_ / "raw", bytes);
        const auto text = problem_of(path, kind);
        EXPECT_TRUE(text.starts_with(path.string() + ": "));
        return text;
      };
      expect_refused(with, rows);
    }
  }
};

TEST_F(IdxFile, ReadsRawAndPackedFilesAlike) {
  write(folder_ / "raw.gz", image_file(5));
  for (const auto& path : {folder_ / "raw.gz", write_packed(folder_ / "packed", image_file(5))}) {
    const auto images = idx::read_idx(path, IdxKind::kImages);
    EXPECT_EQ(images.shape, (std::vector<int64_t>{5, 4, 3}));
    EXPECT_EQ(images.bytes.get()[0], 0);
    EXPECT_EQ(images.bytes.get()[59], 4 + 11);
  }
  const auto labels = idx::read_idx(write_bytes(folder_ / "labels", label_file(12)), IdxKind::kLabels);
  EXPECT_EQ(labels.count(), 12);
  EXPECT_EQ(labels.bytes.get()[11], 1);
}

TEST_F(IdxFile, NamesWhatItIsNot) {
  expect_refused_alike(IdxKind::kImages,
                       {{label_file(5), "magic number 0x00000801, expected 0x00000803 for images: are the files"},
                        {idx_header({0xDEADBEEF, 5, 4, 3}), "magic number 0xdeadbeef, expected 0x00000803"},
                        {image_file(5).substr(0, 75),
                         "claims 5 images of 4 x 3, which is 76 bytes, but the file holds 75: it is truncated"},
                        {idx_header({kImages, 5}), "holds 8 bytes, expected a header of 16"},
                        {"", "holds 0 bytes, expected a header of 16: the file is empty"},
                        {idx_header({kImages, 0, 28, 28}), "says that it holds no images"},
                        {idx_header({kImages, 0xFFFFFFFF, 28, 28}) + "abc", "its header claims 4294967295 images"},
                        {idx_header({kImages, 1'000'000, 28, 28}) + "abc", "it is truncated"},
                        {idx_header({kImages, 1, 0xFFFFFFFF, 0xFFFFFFFF}), "images of 4294967295 x 4294967295"},
                        {idx_header({kImages, 1, 0, 28}), "images of 0 x 28"}});
  expect_refused_alike(IdxKind::kLabels,
                       {{image_file(5), "magic number 0x00000803, expected 0x00000801 for labels: are the files"},
                        {"<html>Please log in</html>", "looks like a web page"},
                        {idx_header({kLabels, 0}), "says that it holds no labels"},
                        {label_file(5) + "x", "there is more than the header says"}});
}

TEST_F(IdxFile, NamesDamagedPackingAndUnpacksNoMoreThanTheHeaderSays) {
  auto content = idx_header({kLabels, 50'000});
  for (uint32_t n = 0; n < 50'000; ++n) content += static_cast<char>((n * n >> 3) % 10);
  const auto whole = read(write_packed(folder_ / "whole", content));
  auto damaged = whole;
  damaged[damaged.size() - 6] ^= 1;  // the check sum
  const auto with = [&](const std::string& bytes) {
    return problem_of(write_bytes(folder_ / "packed", bytes), IdxKind::kLabels);
  };
  const auto bomb = read(write_packed(folder_ / "bomb", label_file(5) + std::string(64 << 20, '\0')));
  EXPECT_LT(bomb.size(), 100'000);
  expect_refused(with, {{whole.substr(0, whole.size() / 2), "it is truncated"},
                        {whole.substr(0, whole.size() - 8), "the end of the packed file is missing"},
                        {damaged, "its gzip data are damaged"},
                        {bomb, "there is more than the header says"}});
  for (const auto& path : {folder_ / "none", folder_})
    EXPECT_TRUE(says(problem_of(path, IdxKind::kLabels), "is not a file"));
}

const std::vector<std::string> kNames{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                      "t10k-labels-idx1-ubyte"};

class Mnist : public FolderTest {
 protected:
  Mnist() {
    const std::vector<std::string> contents{image_file(50), label_file(50), image_file(20), label_file(20)};
    for (size_t i = 0; i < 4; ++i) write(folder_ / kNames[i], contents[i]);
  }

  std::shared_ptr<Dataset> load(Settings settings = {}, const std::string& plugin = MNIST_PLUGIN) const {
    settings.insert(settings.begin(), {{"root", folder_}, {"validation", "10"}});
    return load_dataset(plugin, settings);
  }
  std::shared_ptr<Dataset> start(const Settings& settings = {}, const std::string& plugin = MNIST_PLUGIN) const {
    auto data = load(settings, plugin);
    data->start();
    return data;
  }
};

TEST_F(Mnist, HoldsOutTheLastTrainingImages) {
  const auto data = start();
  EXPECT_EQ(data->size(Split::kTrain), 40);
  EXPECT_EQ(data->size(Split::kVal), 10);
  EXPECT_EQ(data->size(Split::kTest), 20);
  EXPECT_EQ(data->spec().sample_shape, (std::vector<int64_t>{1, 4, 3}));
  EXPECT_EQ(data->spec().class_names[3], "3");
  const auto batch = data->get(Split::kVal, Numbers{3});
  EXPECT_EQ(batch.target.item<int64_t>(), 43 % 10);
  EXPECT_NEAR(batch.input[0][0][0][0].item<float>(), (43 / 255.0 - 0.1307) / 0.3081, 1e-6);
  const auto fashion = start({{"validation", "0"}}, FASHION_MNIST_PLUGIN);
  EXPECT_EQ(fashion->spec().class_names[9], "ankle boot");
  EXPECT_NEAR(fashion->get(Split::kTest, Numbers{0}).input[0][0][0][0].item<float>(), -0.2860 / 0.3530, 1e-6);
}

TEST_F(Mnist, IsFoundWhereTorchvisionKeepsIt) {
  for (const auto* kept : {"MNIST", "FashionMNIST"}) {
    for (const auto& name : kNames) write(folder_ / kept / "raw" / name, read(folder_ / name));
  }
  for (const auto& name : kNames) std::filesystem::remove(folder_ / name);
  for (const auto& [plugin, kept] : {std::pair{MNIST_PLUGIN, "MNIST"}, {FASHION_MNIST_PLUGIN, "FashionMNIST"}}) {
    for (const auto& root : {folder_, folder_ / kept, folder_ / kept / "raw"}) {
      const auto data = load({{"root", root}}, plugin);
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

TEST_F(Mnist, TakesItsNumbersFromTheOptions) {
  const auto data = start({{"validation", "0"}, {"limit_train", "30"}, {"mean", "0"}, {"std", "1"}});
  EXPECT_EQ(data->size(Split::kTrain), 30);
  EXPECT_EQ(data->size(Split::kVal), 0);
  const auto account = data->account();
  EXPECT_EQ(account.used, 30 + data->size(Split::kTest));
  EXPECT_EQ(account.left_alone.at(0).count, 50 - 30);
  EXPECT_NEAR(data->get(Split::kTrain, Numbers{9}).input[0][0][0][0].item<float>(), 9 / 255.0, 1e-7);
}

TEST_F(Mnist, GivesTheSameFromPackedFiles) {
  const auto expected = first(*start(), Split::kTest, 20);
  for (const auto* name : {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    write_packed(folder_ / (std::string(name) + ".gz"), read(folder_ / name));
    std::filesystem::remove(folder_ / name);
  }
  EXPECT_TRUE(first(*start(), Split::kTest, 20).input.equal(expected.input));
}

TEST_F(Mnist, NamesFilesThatDoNotFitEachOther) {
  auto labels = label_file(20);
  labels[8 + 7] = 10;
  const auto with = [&](const std::pair<std::string, std::string>& file) {
    const auto good = read(folder_ / file.first);
    write(folder_ / file.first, file.second);
    const auto text = error_of([&] { start(); });
    write(folder_ / file.first, good);
    return text;
  };
  expect_refused<std::pair<std::string, std::string>>(
      with, {{{kNames[1], label_file(49)}, "train-images-idx3-ubyte holds 50 images ... 49 labels"},
             {{kNames[3], labels}, "t10k-labels-idx1-ubyte: label 10 of image 7, expected 0 to 9"},
             {{kNames[2], image_file(20, 4, 4)}, "t10k-images-idx3-ubyte: images of 4 x 4, but those of"}});
  const auto problem = [&](const Settings& settings) { return error_of([&] { start(settings); }); };
  EXPECT_TRUE(says(problem({{"validation", "50"}}), "holds 50 images: too few for validation: 50"));
  EXPECT_TRUE(says(problem({{"limit_train", "41"}}), "too few for validation: 10 and limit_train: 41"));
  std::filesystem::remove(folder_ / kNames[3]);
  EXPECT_TRUE(says(problem({}), "mnist: the files are not there ... " + folder_.string() +
                                    " ... f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"));
}

TEST(RealMnist, IsTheOneEverybodyKnows) {
  if (!std::getenv("DDPRUN_DATA")) GTEST_SKIP() << "DDPRUN_DATA is not set: no real MNIST here";
  const auto data =
      started_dataset(MNIST_PLUGIN, {{"validation", "0"}, {"download", "false"}, {"mean", "0"}, {"std", "1"}});
  ASSERT_EQ(data->size(Split::kTrain), 60'000);
  ASSERT_EQ(data->size(Split::kTest), 10'000);
  const auto train = first(*data, Split::kTrain, 60'000);
  EXPECT_TRUE(train.target.slice(0, 0, 5).equal(at::tensor({5, 0, 4, 1, 9}, at::kLong)));
  const auto histogram = at::tensor({5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}, at::kLong);
  EXPECT_TRUE(train.target.bincount().equal(histogram));
  EXPECT_NEAR(train.input.mean().item<float>(), 0.1307, 1e-4);
  EXPECT_NEAR(train.input.std().item<float>(), 0.3081, 1e-4);
}

}  // namespace
}  // namespace ddprun::test
