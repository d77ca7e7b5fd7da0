// SPDX-License-Identifier: MIT
#include "cifar_files.h"
#include "plugin_under_test.h"
#include "support/written_files.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

namespace ddprun::test {
namespace {

// All pixels of channel c are n + c.
std::string pixels_of(int n) {
  std::string pixels;
  for (int c = 0; c < 3; ++c) pixels += std::string(1024, static_cast<char>(n + c));
  return pixels;
}

// CIFAR-100's: coarse label n % 20, fine label n % 100.
std::string records(int count, int first = 0) {
  std::string text;
  for (int n = first; n < first + count; ++n)
    text += std::string{static_cast<char>(n % 20), static_cast<char>(n % 100)} + pixels_of(n);
  return text;
}

std::string names(const std::string& word, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += word + std::to_string(i) + "\n";
  return text;
}

// As Python 2's cPickle writes them with protocol 2, with every text remembered.
std::string pickled_text(const std::string& text) {
  return (text.size() < 256 ? "U" + little_endian(text.size(), 1) : "T" + little_endian(text.size(), 4)) + text + "r" +
         little_endian(7, 4);
}

std::string pickled(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string pickle("\x80\x02}q\x01(");
  for (const auto& [key, value] : entries) pickle += pickled_text(key) + value;
  return pickle + "u.";
}

// Appended as a group, and the last by itself, as Python does, whose groups have 1,000.
template <class Item>
std::string pickled_list(int count, const Item& item) {
  std::string list = "](";
  for (int i = 0; i + 1 < count; ++i) list += item(i);
  return list + "e" + item(count - 1) + "a";
}

std::string pickled_texts(const std::string& word, int count) {
  return pickled_list(count, [&](int i) { return pickled_text(word + std::to_string(i)); });
}

// The images of records(), by numpy.
std::string pickled_images(int count, int first = 0) {
  using namespace std::string_literals;
  std::string pixels;
  for (int n = first; n < first + count; ++n) pixels += pixels_of(n);
  const auto labels = [&](int classes) {
    return pickled_list(count,
                        [&](int i) { return "K" + little_endian(static_cast<size_t>((first + i) % classes), 1); });
  };
  const auto array =
      "cnumpy.core.multiarray\n_reconstruct\nq\x07"
      "cnumpy\nndarray\nq\x08K\x00\x85U\x01"
      "b\x87Rq\x09(K\x01M"s +
      little_endian(static_cast<size_t>(count), 2) +
      "M\x00\x0c\x86"
      "cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b"s +
      "(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"s + pickled_text(pixels) + "tb";
  return pickled({{"filenames", pickled_texts("f", count)},
                  {"fine_labels", labels(100)},
                  {"coarse_labels", labels(20)},
                  {"data", array}});
}

const Numbers kTests{0, 1, 2, 3, 4, 5, 6, 7};

class Cifar : public FolderTest {
 protected:
  void unpack(const std::filesystem::path& folder) const {
    for (const auto& [name, content] : members_) write(folder / name, content);
  }

  void pack(const std::string& more = "") const {
    std::string tar = tar_member("cifar-100-binary/", "", '5');
    for (const auto& [name, content] : members_) tar += tar_member("cifar-100-binary/" + name, content);
    write_packed(archive_, tar + more + kTarEnd);
  }

  std::shared_ptr<Dataset> start(Settings settings = {}, const std::string& plugin = CIFAR100_PLUGIN) const {
    settings.insert(settings.begin(), {{"root", folder_}, {"download", "false"}});
    if (std::ranges::find(settings, "validation", &Settings::value_type::first) == settings.end())
      settings.push_back({"validation", "10"});
    return started_dataset(plugin, settings);
  }

  std::string problem(const Settings& settings = {}) const {
    return error_of([&] { start(settings); });
  }

  // What is wrong with the archive as members_ and `more` make it.
  std::string pack_problem(const std::string& more = "") const {
    pack(more);
    return problem();
  }

  const std::filesystem::path archive_ = folder_ / "cifar-100-binary.tar.gz";
  std::map<std::string, std::string> members_{{"train.bin", records(30)},
                                              {"test.bin", records(8, 100)},
                                              {"fine_label_names.txt", names("fine", 100)},
                                              {"coarse_label_names.txt", names("coarse", 20)}};
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
  const auto batch = data->get(Split::kVal, Numbers{5});
  EXPECT_EQ(batch.target.item<int64_t>(), 25);
  EXPECT_NEAR(batch.input[0][0][0][0].item<float>(), (25 / 255.0 - 0.5071) / 0.2673, 1e-5);
  const auto shown = at::tensor({25, 26, 27}, at::kByte).view({1, 3, 1, 1}).expand({1, 3, 32, 32});
  EXPECT_TRUE(data->to_image(batch.input).equal(shown));

  const auto coarse = start({{"labels", "coarse"}});
  EXPECT_EQ(coarse->spec().classes, 20);
  EXPECT_EQ(coarse->spec().class_names[19], "coarse19");
  EXPECT_EQ(coarse->get(Split::kVal, Numbers{9}).target.item<int64_t>(), 9);
}

TEST_F(Cifar, ReadsFoldersAlike) {
  pack();
  const auto expected = start()->get(Split::kTest, kTests);
  std::filesystem::remove(archive_);
  unpack(folder_ / "cifar-100-binary");
  EXPECT_TRUE(start()->get(Split::kTest, kTests).input.equal(expected.input));
  std::filesystem::remove_all(folder_ / "cifar-100-binary");
  unpack(folder_);
  EXPECT_TRUE(start()->get(Split::kTest, kTests).target.equal(expected.target));
}

TEST_F(Cifar, ReadsTorchvisionsPicklesAlike) {
  pack();
  const auto binary = start();
  const auto expected = binary->get(Split::kTest, kTests);
  std::filesystem::remove(archive_);
  const auto folder = folder_ / "cifar-100-python";
  const auto meta =
      pickled({{"fine_label_names", pickled_texts("fine", 100)}, {"coarse_label_names", pickled_texts("coarse", 20)}});
  write(folder / "train", pickled_images(30));
  write(folder / "test", pickled_images(8, 100));
  write(folder / "meta", meta);
  const auto data = start();
  EXPECT_TRUE(data->get(Split::kTest, kTests).input.equal(expected.input));
  EXPECT_TRUE(data->get(Split::kTest, kTests).target.equal(expected.target));
  EXPECT_EQ(data->spec().class_names, binary->spec().class_names);
  EXPECT_EQ(start({{"labels", "coarse"}})->get(Split::kTest, kTests).target[3].item<int64_t>(), 103 % 20);

  auto negative = pickled_images(30);
  negative.replace(negative.find("](K"), 4, "](J\xff\xff\xff\xff");
  const auto with = [&](const std::string& bytes) {
    write(folder / "train", bytes);
    return problem();
  };
  expect_refused(with, {{negative, "cifar-100-python/train ... expected 0 to 99"},
                        {pickled_images(30).substr(0, 5000), "cifar-100-python/train ... truncated"},
                        {meta, "is a pickle without what is expected under \"data\""},
                        {pickled({{"data", "cos\nsystem\nU\x04true\x85R"}}), "has no array uint8 [images, 3072]"},
                        {"\x80\x04\x95", "is not a pickle of Python 2's protocol 2"}});
}

TEST_F(Cifar, TenClassesComeInFiveBatches) {
  const auto folder = folder_ / "cifar-10-batches-bin";
  const auto batch = [](int label) { return static_cast<char>(label) + std::string(3072, static_cast<char>(label)); };
  for (int i = 1; i <= 5; ++i) write(folder / ("data_batch_" + std::to_string(i) + ".bin"), batch(i) + batch(i));
  write(folder / "test_batch.bin", batch(7));
  write(folder / "batches.meta.txt", names("class", 10) + "\n");
  const auto data = start({{"validation", "2"}}, CIFAR10_PLUGIN);
  EXPECT_EQ(data->spec().class_names[3], "class3");
  EXPECT_TRUE(data->get(Split::kTrain, Numbers{0, 3, 7}).target.equal(at::tensor({1, 2, 4}, at::kLong)));
  EXPECT_EQ(data->get(Split::kTest, Numbers{0}).target.item<int64_t>(), 7);
}

TEST_F(Cifar, AugmentsTrainingImagesUnlessItIsNotTo) {
  auto& train = members_["train.bin"];
  for (size_t i = 0; i < train.size(); ++i) {
    if (i % 3074 > 1) train[i] = static_cast<char>(i % 251 + 1);
  }
  pack();
  const auto augmented = [&](const Settings& settings) {
    const auto data = start(settings);
    auto batch = first(*data, Split::kTrain, 10);
    data->augment(batch, {.seed = 1, .epoch = 2});
    return batch.input;
  };
  const auto plain = first(*start(), Split::kTrain, 10).input, changed = augmented({});
  EXPECT_FALSE(changed.equal(plain));
  EXPECT_FLOAT_EQ(changed.min().item<float>(), -0.4865F / 0.2564F);  // padded with black, which these images lack
  EXPECT_TRUE(augmented({{"crop_padding", "0"}, {"flip", "false"}}).equal(plain));
}

TEST_F(Cifar, NamesAMemberThatIsWrong) {
  const auto with_byte = [](size_t at, char byte) {
    auto bytes = records(8);
    bytes[at] = byte;
    return bytes;
  };
  const auto with = [&](const std::pair<std::string, std::string>& member) {
    const auto good = members_;
    members_[member.first] = member.second;
    const auto text = pack_problem();
    members_ = good;
    return text;
  };
  expect_refused<std::pair<std::string, std::string>>(
      with, {{{"train.bin", records(30).substr(1)},
              "cifar-100-binary.tar.gz: cifar-100-binary/train.bin: holds 92219 bytes, expected 1 to 50000 records of "
              "3074 bytes"},
             {{"test.bin", ""}, "test.bin: holds 0 bytes"},
             {{"test.bin", with_byte(3074 * 6 + 1, 100)}, "test.bin: label 100 of image 6, expected 0 to 99"},
             {{"test.bin", with_byte(3074 * 6, 20)}, "test.bin: label 20 of image 6, expected 0 to 19"},
             {{"fine_label_names.txt", names("f", 99)}, "fine_label_names.txt: names 99 classes"},
             {{"fine_label_names.txt", std::string(1 << 17, 'x')}, "too many for class names"}});
  members_.erase("test.bin");
  EXPECT_TRUE(says(pack_problem(), "lacks cifar-100-binary/test.bin"));
}

TEST_F(Cifar, NamesMembersThatDoNotBelongThereOrLieAboutTheirSize) {
  const auto with = [&](const std::string& member) { return pack_problem(member); };
  expect_refused(with, {{tar_member("../train.bin", "x"), "has a member ../train.bin, expected all below"},
                        {tar_member("/etc/x", "x"), "has a member /etc/x"},
                        {tar_member("cifar-100-binary/../x", "x"), "expected all below"},
                        {tar_member("cifar-100-binary/x", "", '2'), "that is a link or a device"},
                        {tar_member("cifar-100-binary/x", "", '1'), "that is a link or a device"},
                        {tar_member("cifar-100-binary/train.bin", records(1)), "train.bin: is there twice"},
                        {tar_member("./cifar-100-binary/readme.html", "x"), ""}});
  members_.erase("train.bin");
  expect_refused(with, {{tar_member("cifar-100-binary/train.bin", "x", '0', 3074LL * 2'000'000),
                         "train.bin: holds 6148000000 bytes, expected 1 to 50000 records"},
                        {tar_member("cifar-100-binary/train.bin", "x", '0', 3074LL * 50'000),
                         "is truncated or damaged in cifar-100-binary/train.bin"}});
}

TEST_F(Cifar, NamesAnArchiveThatIsNoneOrDamaged) {
  std::string noise;
  for (uint32_t i = 0; i < 20'000; ++i) noise += static_cast<char>(i * i >> 5);
  pack(tar_member("cifar-100-binary/noise", noise));
  const auto whole = read(archive_);
  const auto with = [&](const std::string& bytes) {
    write(archive_, bytes);
    return problem();
  };
  const std::string truncated = "is truncated: the end of the packed file is missing";
  expect_refused(with, {{"<!DOCTYPE html>", ".tar.gz: is not a .tar.gz archive ... again"},
                        {whole.substr(0, whole.size() / 2), truncated},
                        {whole.substr(0, whole.size() - 1), truncated}});
  for (size_t at = whole.size() / 2; at < whole.size() - 4; at += 97) {
    auto flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    EXPECT_NE(with(flipped), "") << at;
  }
  write_packed(archive_, std::string(2000, 'x'));
  EXPECT_TRUE(says(problem(), ".tar.gz: does not contain a tar archive"));
}

TEST_F(Cifar, UnpacksNoMoreThanADataSetMayHold) {
  const cifar::CifarTable table{.folder = "d",
                                .train_files = {"train.bin"},
                                .test_file = "test.bin",
                                .most_records = 1,
                                .labels = {{.name = "label", .classes = 2, .names_file = "names.txt"}}};
  write_packed(archive_, tar_member("d/x", std::string(30 << 20, '\0')) + kTarEnd);
  EXPECT_TRUE(says(error_of([&] { cifar::read_files(archive_, table); }), "holds more than this data set"));
}

TEST_F(Cifar, NamesWhatIsMissingOrTooLittle) {
  EXPECT_TRUE(says(problem(),
                   "cifar100: the files are not there ... "
                   "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec ... "
                   "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"));
  unpack(folder_ / "cifar-100-binary");
  EXPECT_TRUE(says(problem({{"validation", "30"}}), "holds 30 training images: too few for validation: 30"));
  EXPECT_TRUE(says(problem({{"mean", "[0.5]"}}), "dataset.mean: expected 3 numbers, one for each channel, found 1"));
  std::filesystem::remove(folder_ / "cifar-100-binary/fine_label_names.txt");
  EXPECT_TRUE(says(problem(),
                   "cifar-100-binary/fine_label_names.txt: cannot be read: No such file ... unpack the whole archive"));
}

TEST(RealCifar100, HasTheNumbersOfItsKind) {
  const char* folder = std::getenv("DDPRUN_DATA");
  const auto root = std::filesystem::path(folder ? folder : "") / "cifar100-subset";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "no subset of CIFAR-100 under DDPRUN_DATA";
  const auto data = started_dataset(CIFAR100_PLUGIN, {{"root", root}, {"validation", "1000"}});
  EXPECT_EQ(data->size(Split::kTrain), 9'000);
  EXPECT_EQ(data->size(Split::kTest), 2'000);
  EXPECT_EQ(data->spec().class_names[0], "apple");
  const auto batch = first(*data, Split::kTrain, 9'000);
  EXPECT_TRUE(batch.input.mean({0, 2, 3}).allclose(at::zeros(3), 0, 0.05));
  EXPECT_TRUE(batch.input.std({0, 2, 3}, true).allclose(at::ones(3), 0, 0.05));
  EXPECT_EQ(batch.target.bincount().size(0), 100);
}

}  // namespace
}  // namespace ddprun::test
