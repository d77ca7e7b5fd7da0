// SPDX-License-Identifier: MIT
#include "cifar_files.h"
#include "idx_writer.h"
#include "plugin_under_test.h"
#include "tar_writer.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// CIFAR-100's: coarse label n % 20, fine label n % 100, all pixels of channel c are n + c.
std::string records(int count, int first = 0) {
  std::string text;
  for (int n = first; n < first + count; ++n) {
    text += {static_cast<char>(n % 20), static_cast<char>(n % 100)};
    for (int c = 0; c < 3; ++c) text += std::string(1024, static_cast<char>(n + c));
  }
  return text;
}

std::string names(const std::string& word, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += word + std::to_string(i) + "\n";
  return text;
}

std::string little(size_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

// As Python 2's cPickle writes them with protocol 2, with every text remembered.
std::string pickled_text(const std::string& text) {
  return (text.size() < 256 ? "U" + little(text.size(), 1) : "T" + little(text.size(), 4)) + text + "r" + little(7, 4);
}

std::string pickled(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string pickle("\x80\x02}q\x01(");
  for (const auto& [key, value] : entries) pickle += pickled_text(key) + value;
  return pickle + "u.";
}

// Appends in groups, and one that is left over by itself, as Python does, whose groups have 1,000.
std::string pickled_list(const std::vector<std::string>& items) {
  constexpr size_t kGroup = 29;
  std::string list = "]";
  for (size_t begin = 0; begin < items.size(); begin += kGroup) {
    const auto end = std::min(begin + kGroup, items.size());
    const bool alone = end - begin == 1;
    if (!alone) list += "(";
    for (size_t i = begin; i < end; ++i) list += items[i];
    list += alone ? "a" : "e";
  }
  return list;
}

std::string pickled_texts(const std::string& word, int count) {
  std::vector<std::string> items;
  for (int i = 0; i < count; ++i) items.push_back(pickled_text(word + std::to_string(i)));
  return pickled_list(items);
}

std::string pickled_numbers(int count, int first, int classes) {
  std::vector<std::string> items;
  for (int n = first; n < first + count; ++n) items.push_back("K" + little(static_cast<size_t>(n % classes), 1));
  return pickled_list(items);
}

// The images of records(), by numpy.
std::string pickled_images(int count, int first = 0) {
  using namespace std::string_literals;
  std::string pixels;
  for (const auto all = records(count, first); pixels.size() < static_cast<size_t>(count) * 3072;)
    pixels += all.substr(pixels.size() / 3072 * 3074 + 2, 3072);
  const auto array =
      "cnumpy.core.multiarray\n_reconstruct\nq\x07"
      "cnumpy\nndarray\nq\x08K\x00\x85U\x01"
      "b\x87Rq\x09(K\x01M"s +
      little(static_cast<size_t>(count), 2) +
      "M\x00\x0c\x86"
      "cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b"s +
      "(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"s + pickled_text(pixels) + "tb";
  return pickled({{"filenames", pickled_texts("f", count)},
                  {"fine_labels", pickled_numbers(count, first, 100)},
                  {"coarse_labels", pickled_numbers(count, first, 20)},
                  {"data", array}});
}

class Cifar : public ::testing::Test {
 protected:
  Cifar() {
    members_ = {{"train.bin", records(30)},
                {"test.bin", records(8, 100)},
                {"fine_label_names.txt", names("fine", 100)},
                {"coarse_label_names.txt", names("coarse", 20)}};
  }

  void unpack(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    for (const auto& [name, content] : members_) write_file(folder / name, content);
  }

  void pack(const std::string& more = "") {
    std::string tar = tar_member("cifar-100-binary/", "", '5');
    for (const auto& [name, content] : members_) tar += tar_member("cifar-100-binary/" + name, content);
    write_packed(folder_ / "cifar-100-binary.tar.gz", tar + more + kTarEnd);
  }

  std::shared_ptr<Dataset> start(Settings settings = {}, const std::string& plugin = CIFAR100_PLUGIN) {
    settings.insert(settings.begin(), {{"root", folder_.path()}, {"download", "false"}});
    if (std::ranges::find(settings, "validation", &Settings::value_type::first) == settings.end()) {
      settings.push_back({"validation", "10"});
    }
    auto data = load_dataset(plugin, settings);
    data->start();
    return data;
  }

  std::string problem(const Settings& settings = {}) {
    return message_of<UserError>([&] { start(settings); });
  }

  // What is wrong with the archive as members_ and `more` make it.
  std::string pack_problem(const std::string& more = "") {
    pack(more);
    return problem();
  }

  TestFolder folder_;
  std::map<std::string, std::string> members_;
};

TEST_F(Cifar, ReadsTheArchive) {
  pack();
  const auto data = start();
  EXPECT_EQ(data->size(Split::kTrain), 20);
  EXPECT_EQ(data->size(Split::kVal), 10);
  EXPECT_EQ(data->size(Split::kTest), 8);
  EXPECT_EQ(data->spec().sample_shape, (std::vector<int64_t>{3, 32, 32}));
  EXPECT_EQ(data->spec().classes, 100);
  EXPECT_EQ(data->spec().class_names[99], "fine99");
  const auto batch = data->get(Split::kVal, std::vector<int64_t>{5});
  EXPECT_EQ(batch.target.item<int64_t>(), 25);
  EXPECT_NEAR(batch.input[0][0][0][0].item<float>(), (25 / 255.0 - 0.5071) / 0.2673, 1e-5);
  EXPECT_NEAR(batch.input[0][2][31][31].item<float>(), (27 / 255.0 - 0.4409) / 0.2762, 1e-5);
}

TEST_F(Cifar, ShowsImagesAsTheyAre) {
  pack();
  const auto data = start();
  const auto image = data->to_image(data->get(Split::kTrain, std::vector<int64_t>{7}).input);
  EXPECT_TRUE(image.equal(at::tensor({7, 8, 9}, at::kByte).view({1, 3, 1, 1}).expand({1, 3, 32, 32})));
}

TEST_F(Cifar, ReadsFoldersAlike) {
  pack();
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5, 6, 7};
  const auto expected = start()->get(Split::kTest, all);
  std::filesystem::remove(folder_ / "cifar-100-binary.tar.gz");
  unpack(folder_ / "cifar-100-binary");
  EXPECT_TRUE(start()->get(Split::kTest, all).input.equal(expected.input));
  std::filesystem::remove_all(folder_ / "cifar-100-binary");
  unpack(folder_.path());
  EXPECT_TRUE(start()->get(Split::kTest, all).target.equal(expected.target));
}

TEST_F(Cifar, ReadsTorchvisionsPicklesAlike) {
  pack();
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5, 6, 7};
  const auto binary = start();
  const auto expected = binary->get(Split::kTest, all);
  std::filesystem::remove(folder_ / "cifar-100-binary.tar.gz");
  const auto folder = folder_ / "cifar-100-python";
  std::filesystem::create_directories(folder);
  write_file(folder / "train", pickled_images(30));
  write_file(folder / "test", pickled_images(8, 100));
  const auto meta =
      pickled({{"fine_label_names", pickled_texts("fine", 100)}, {"coarse_label_names", pickled_texts("coarse", 20)}});
  write_file(folder / "meta", meta);
  const auto data = start();
  EXPECT_TRUE(data->get(Split::kTest, all).input.equal(expected.input));
  EXPECT_TRUE(data->get(Split::kTest, all).target.equal(expected.target));
  EXPECT_EQ(data->spec().class_names, binary->spec().class_names);
  EXPECT_EQ(start({{"labels", "coarse"}})->get(Split::kTest, all).target[3].item<int64_t>(), 103 % 20);

  auto negative = pickled_images(30);
  negative.replace(negative.find("](K"), 4, "](J\xff\xff\xff\xff");
  write_file(folder / "train", negative);
  EXPECT_THAT(problem(), AllOf(HasSubstr("cifar-100-python/train"), HasSubstr("expected 0 to 99")));
  write_file(folder / "train", pickled_images(30).substr(0, 5000));
  EXPECT_THAT(problem(), AllOf(HasSubstr("cifar-100-python/train"), HasSubstr("truncated")));
  write_file(folder / "train", meta);
  EXPECT_THAT(problem(), HasSubstr("is a pickle without what is expected under \"data\""));
  write_file(folder / "train", pickled({{"data", "cos\nsystem\nU\x04true\x85R"}}));
  EXPECT_THAT(problem(), HasSubstr("has no array uint8 [images, 3072]")) << "and nothing was called";
  write_file(folder / "train", "\x80\x04\x95");
  EXPECT_THAT(problem(), HasSubstr("is not a pickle of Python 2's protocol 2"));
}

TEST_F(Cifar, LearnsCoarseLabelsWhereAsked) {
  pack();
  const auto data = start({{"labels", "coarse"}});
  EXPECT_EQ(data->spec().classes, 20);
  EXPECT_EQ(data->spec().class_names[19], "coarse19");
  EXPECT_EQ(data->get(Split::kTrain, std::vector<int64_t>{19}).target.item<int64_t>(), 19);
  EXPECT_EQ(data->get(Split::kVal, std::vector<int64_t>{9}).target.item<int64_t>(), 9);
}

TEST_F(Cifar, TenClassesComeInFiveBatches) {
  const auto folder = folder_ / "cifar-10-batches-bin";
  std::filesystem::create_directories(folder);
  const auto batch = [](int label) { return static_cast<char>(label) + std::string(3072, static_cast<char>(label)); };
  for (int i = 1; i <= 5; ++i) write_file(folder / ("data_batch_" + std::to_string(i) + ".bin"), batch(i) + batch(i));
  write_file(folder / "test_batch.bin", batch(7));
  write_file(folder / "batches.meta.txt", names("class", 10) + "\n");
  const auto data = start({{"validation", "2"}}, CIFAR10_PLUGIN);
  EXPECT_EQ(data->spec().class_names[3], "class3");
  EXPECT_TRUE(data->get(Split::kTrain, std::vector<int64_t>{0, 3, 7}).target.equal(at::tensor({1, 2, 4}, at::kLong)));
  EXPECT_EQ(data->get(Split::kTest, std::vector<int64_t>{0}).target.item<int64_t>(), 7);
}

TEST_F(Cifar, AugmentsTrainingImagesUnlessToldNotTo) {
  members_["train.bin"] = records(30);
  for (size_t i = 0; i < members_["train.bin"].size(); ++i) {
    if (i % 3074 > 1) members_["train.bin"][i] = static_cast<char>(i % 251 + 1);
  }
  pack();
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto data = start();
  const auto plain = data->get(Split::kTrain, all);
  auto changed = plain, again = data->get(Split::kTrain, std::vector<int64_t>{7});
  data->augment(changed, {.seed = 1, .epoch = 2});
  data->augment(again, {.seed = 1, .epoch = 2});
  EXPECT_FALSE(changed.input.equal(plain.input));
  EXPECT_TRUE(changed.input[7].equal(again.input[0]));
  EXPECT_FLOAT_EQ(changed.input.min().item<float>(), -0.4865F / 0.2564F);  // padded with black, which these images lack
  auto same = plain;
  start({{"crop_padding", "0"}, {"flip", "false"}})->augment(same, {.seed = 1, .epoch = 2});
  EXPECT_TRUE(same.input.equal(plain.input));
}

TEST_F(Cifar, NamesAMemberThatIsWrong) {
  const auto good = members_;
  const auto with = [&](const std::string& name, const std::string& content) {
    members_ = good;
    members_[name] = content;
    return pack_problem();
  };
  EXPECT_THAT(with("train.bin", records(30).substr(1)),
              HasSubstr("cifar-100-binary.tar.gz: cifar-100-binary/train.bin: holds 92219 bytes, expected 1 to 50000 "
                        "records of 3074 bytes"));
  EXPECT_THAT(with("test.bin", ""), HasSubstr("test.bin: holds 0 bytes"));
  auto label = records(8);
  label[3074 * 6 + 1] = 100;
  EXPECT_THAT(with("test.bin", label), HasSubstr("test.bin: label 100 of image 6, expected 0 to 99"));
  label = records(8);
  label[3074 * 6] = 20;
  EXPECT_THAT(with("test.bin", label), HasSubstr("test.bin: label 20 of image 6, expected 0 to 19"));
  EXPECT_THAT(with("fine_label_names.txt", names("f", 99)), HasSubstr("fine_label_names.txt: names 99 classes"));
  EXPECT_THAT(with("fine_label_names.txt", std::string(1 << 17, 'x')), HasSubstr("too many for class names"));
  members_ = good;
  members_.erase("test.bin");
  EXPECT_THAT(pack_problem(), HasSubstr("lacks cifar-100-binary/test.bin"));
}

TEST_F(Cifar, NamesMembersThatDoNotBelongThere) {
  EXPECT_THAT(pack_problem(tar_member("../train.bin", "x")),
              HasSubstr("has a member ../train.bin, expected all below"));
  EXPECT_THAT(pack_problem(tar_member("/etc/x", "x")), HasSubstr("has a member /etc/x"));
  EXPECT_THAT(pack_problem(tar_member("cifar-100-binary/../x", "x")), HasSubstr("expected all below"));
  EXPECT_THAT(pack_problem(tar_member("cifar-100-binary/x", "", '2')), HasSubstr("that is a link or a device"));
  EXPECT_THAT(pack_problem(tar_member("cifar-100-binary/x", "", '1')), HasSubstr("that is a link or a device"));
  EXPECT_THAT(pack_problem(tar_member("cifar-100-binary/train.bin", records(1))),
              HasSubstr("train.bin: is there twice"));
  EXPECT_EQ(pack_problem(tar_member("./cifar-100-binary/readme.html", "x")), "nothing thrown");
}

TEST_F(Cifar, NamesAnArchiveThatIsNoneOrDamaged) {
  std::string noise;
  for (uint32_t i = 0; i < 20'000; ++i) noise += static_cast<char>(i * i >> 5);
  pack(tar_member("cifar-100-binary/noise", noise));
  const auto path = folder_ / "cifar-100-binary.tar.gz";
  const auto whole = read_file(path);
  const auto with = [&](const std::string& bytes) {
    write_file(path, bytes);
    return problem();
  };
  EXPECT_THAT(with("<!DOCTYPE html>"), AllOf(HasSubstr(".tar.gz: is not a .tar.gz archive"), HasSubstr("again")));
  for (const auto length : {whole.size() / 2, whole.size() - 1})
    EXPECT_THAT(with(whole.substr(0, length)), HasSubstr("is truncated: the end of the packed file is missing"));
  for (size_t at = whole.size() / 2; at < whole.size() - 4; at += 97) {
    auto flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    EXPECT_NE(with(flipped), "nothing thrown") << at;
  }
  write_packed(path, std::string(2000, 'x'));
  EXPECT_THAT(problem(), HasSubstr(".tar.gz: does not contain a tar archive"));
}

TEST_F(Cifar, UnpacksNoMoreThanADataSetMayHold) {
  const cifar::CifarTable table{.folder = "d",
                                .train_files = {"train.bin"},
                                .test_file = "test.bin",
                                .most_records = 1,
                                .labels = {{.name = "label", .classes = 2, .names_file = "names.txt"}}};
  const auto path = folder_ / "bomb.tar.gz";
  write_packed(path, tar_member("d/x", std::string(30 << 20, '\0')) + kTarEnd);
  EXPECT_THAT(message_of<UserError>([&] { cifar::read_files(path, table); }),
              HasSubstr("holds more than this data set"));
}

TEST_F(Cifar, BelievesNoSizeThatCannotBe) {
  members_.erase("train.bin");
  const auto lies = tar_member("cifar-100-binary/train.bin", "x", '0', 3074LL * 2'000'000);
  EXPECT_THAT(pack_problem(lies), HasSubstr("train.bin: holds 6148000000 bytes, expected 1 to 50000 records"));
  const auto truncated = tar_member("cifar-100-binary/train.bin", "x", '0', 3074LL * 50'000);
  EXPECT_THAT(pack_problem(truncated), HasSubstr("is truncated or damaged in cifar-100-binary/train.bin"));
}

TEST_F(Cifar, NamesAFolderThatLacksAFile) {
  unpack(folder_ / "cifar-100-binary");
  std::filesystem::remove(folder_ / "cifar-100-binary/fine_label_names.txt");
  EXPECT_THAT(problem(), AllOf(HasSubstr("cifar-100-binary/fine_label_names.txt: cannot be read: No such file"),
                               HasSubstr("unpack the whole archive")));
}

TEST_F(Cifar, NamesWhereTheArchiveIsToBePut) {
  EXPECT_THAT(problem(), AllOf(HasSubstr("cifar100: the files are not there"),
                               HasSubstr("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"),
                               HasSubstr("58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec")));
}

TEST_F(Cifar, NamesATrainingSetThatIsTooSmall) {
  pack();
  EXPECT_THAT(problem({{"validation", "30"}}), HasSubstr("holds 30 training images: too few for validation: 30"));
}

TEST_F(Cifar, TakesAMeanForEachChannel) {
  EXPECT_THAT(message_of<std::runtime_error>([] {
                auto values = Value::map();
                auto& mean = values.set("mean", Value::list());
                mean.items() = {Value::scalar("0.5")};
                load_dataset(CIFAR100_PLUGIN, Options(std::move(values), "dataset"));
              }),
              HasSubstr("dataset.mean: expected 3 numbers, one for each channel, found 1"));
}

TEST(RealCifar100, HasTheNumbersOfItsKind) {
  const char* folder = std::getenv("DDPRUN_DATA");
  const auto root = std::filesystem::path(folder ? folder : "") / "cifar100-subset";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "no subset of CIFAR-100 under DDPRUN_DATA";
  const auto data = load_dataset(CIFAR100_PLUGIN, {{"root", root}, {"validation", "1000"}});
  data->start();
  EXPECT_EQ(data->size(Split::kTrain), 9'000);
  EXPECT_EQ(data->size(Split::kTest), 2'000);
  EXPECT_EQ(data->spec().class_names[0], "apple");
  std::vector<int64_t> all(9'000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  const auto batch = data->get(Split::kTrain, all);
  EXPECT_TRUE(batch.input.mean({0, 2, 3}).allclose(at::zeros(3), 0, 0.05));
  EXPECT_TRUE(batch.input.std({0, 2, 3}, true).allclose(at::ones(3), 0, 0.05));
  EXPECT_EQ(batch.target.bincount().size(0), 100);
}

}  // namespace
}  // namespace ddprun::test
