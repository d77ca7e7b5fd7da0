// SPDX-License-Identifier: MIT
#include "idx_writer.h"
#include "image_writer.h"
#include "plugin_under_test.h"

#include <ddprun/error.h>
#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ImageFolder : public ::testing::Test {
 protected:
  std::filesystem::path place(const std::string& name) {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    return path;
  }
  void png(const std::string& name, unsigned char red) { write_png(place(name), 10, 12, red, 0, 0); }
  void text(const std::string& name, const std::string& bytes) { write_file(place(name), bytes); }

  void three_splits() {
    png("train/cat/b.png", 2);
    png("train/cat/a.PNG", 1);
    write_jpeg(place("train/dog/c.jpeg"), 9, 9, {200, 0, 0});
    png("val/cat/a.png", 3);
    png("val/dog/a.png", 4);
    png("test/cat/a.png", 5);
    png("test/dog/a.png", 6);
    text("train/cat/readme.txt", "no picture");
    text("train/.hidden/x.png", "");
  }

  void one_level() {
    for (unsigned char i = 0; i < 10; ++i) {
      png("cat/" + std::to_string(i) + ".png", i);
      png("dog/" + std::to_string(i) + ".png", static_cast<unsigned char>(100 + i));
    }
  }

  std::shared_ptr<Dataset> load(Settings settings = {}) {
    const Settings own = {{"root", folder_.path()}, {"size", "8"}};
    settings.insert(settings.begin(), own.begin(), own.end());
    return load_dataset(IMAGE_FOLDER_PLUGIN, settings);
  }
  std::shared_ptr<Dataset> start(const Settings& settings = {}) {
    auto data = load(settings);
    data->start();
    return data;
  }

  static void ignore(const std::string&, int64_t, int64_t) {}

  std::string problem(const Settings& settings = {}) {
    return message_of<UserError>([&] {
      const auto data = load(settings);
      data->prepare(ignore);
      data->start();
    });
  }

  // The red of all images of a split, as bytes.
  static std::vector<int> reds(const Dataset& data, Split split) {
    std::vector<int> result;
    for (int64_t i = 0; i < data.size(split); ++i) {
      const auto red = data.get(split, std::vector{i}).input[0][0][0][0].item<float>();
      result.push_back(static_cast<int>(std::lround((red * 0.229 + 0.485) * 255)));
    }
    return result;
  }

  TestFolder folder_;
  OwnCache cache_;
};

TEST_F(ImageFolder, KnowsItsLabelsWithoutThePictures) {
  three_splits();
  const auto data = start();
  EXPECT_TRUE(data->is_prepared());
  EXPECT_TRUE(data->labels(Split::kTrain).equal(data->get(Split::kTrain, std::vector<int64_t>{0, 1, 2}).target));
  EXPECT_EQ(data->labels(Split::kVal).numel(), data->size(Split::kVal));
}

TEST_F(ImageFolder, ReadsTheSplitsInTheOrderOfTheNames) {
  three_splits();
  const auto data = start();
  EXPECT_EQ(data->spec().class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data->spec().sample_shape, (std::vector<int64_t>{3, 8, 8}));
  const auto train = reds(*data, Split::kTrain);
  EXPECT_EQ(train[0], 1);
  EXPECT_EQ(train[1], 2);
  EXPECT_NEAR(train[2], 200, 3);
  EXPECT_THAT(reds(*data, Split::kVal), ElementsAre(3, 4));
  EXPECT_THAT(reds(*data, Split::kTest), ElementsAre(5, 6));
  const auto batch = data->get(Split::kTrain, std::vector<int64_t>{2, 0});
  EXPECT_TRUE(batch.target.equal(at::tensor({1, 0}, at::kLong)));
  EXPECT_TRUE(batch.index.equal(at::tensor({2, 0}, at::kLong)));
}

TEST_F(ImageFolder, ShowsImagesAsTheyAre) {
  three_splits();
  const auto data = start();
  const auto image = data->to_image(data->get(Split::kTest, std::vector<int64_t>{1}).input);
  EXPECT_TRUE(image.equal(at::tensor({6, 0, 0}, at::kByte).view({1, 3, 1, 1}).expand({1, 3, 8, 8})));
}

TEST_F(ImageFolder, HoldsOutTheSameImagesForASeed) {
  one_level();
  const auto data = start({{"val_fraction", "0.2"}, {"test_fraction", "0.25"}});
  EXPECT_EQ(data->size(Split::kTrain), 11);
  EXPECT_EQ(data->size(Split::kVal), 4);
  EXPECT_EQ(data->size(Split::kTest), 5);
  std::set<int> all;
  for (const auto split : {Split::kTrain, Split::kVal, Split::kTest})
    all.merge([&] {
      const auto some = reds(*data, split);
      return std::set<int>(some.begin(), some.end());
    }());
  EXPECT_EQ(all.size(), 20U);
  const auto val = reds(*data, Split::kVal);
  EXPECT_EQ(reds(*start({{"val_fraction", "0.2"}}), Split::kVal), val);
  EXPECT_NE(reds(*start({{"val_fraction", "0.2"}, {"seed", "2"}}), Split::kVal), val);
  EXPECT_THAT(problem({{"val_fraction", "0.01"}}), HasSubstr("cannot hold out 0 of 20 training images as val"));
}

TEST_F(ImageFolder, HoldsOutEachImageInOneFoldAndTheSameTestImagesInAll) {
  one_level();
  const auto fold = [&](int number) {
    return start({{"folds", "5"}, {"fold", std::to_string(number)}, {"test_fraction", "0.25"}});
  };
  const auto test = reds(*fold(0), Split::kTest);
  std::set<int> all(test.begin(), test.end());
  for (int number = 0; number < 5; ++number) {
    const auto data = fold(number);
    EXPECT_EQ(reds(*data, Split::kTest), test);
    EXPECT_EQ(data->size(Split::kTrain), 12);
    for (const int red : reds(*data, Split::kVal)) EXPECT_TRUE(all.insert(red).second) << red;
  }
  EXPECT_EQ(all.size(), 20U);
  EXPECT_THAT(problem({{"folds", "21"}}), HasSubstr("dataset.folds is 21, expected 2 to 20"));
}

TEST_F(ImageFolder, TakesNewImagesInThePlaceOfTest) {
  three_splits();
  text("notes.txt", "no picture");
  png("new.png", 77);
  const auto data = start();
  EXPECT_THAT(data->use_inputs({folder_ / "new.png", folder_ / "test/cat/a.png"}),
              ElementsAre(folder_ / "new.png", folder_ / "test/cat/a.png"));
  EXPECT_THAT(reds(*data, Split::kTest), ElementsAre(77, 5));
  const auto take = [&](const Settings& settings) {
    return start(settings)->use_inputs({folder_ / "notes.txt", folder_ / "new.png"});
  };
  EXPECT_THAT(message_of<UserError>([&] { take({}); }), HasSubstr("notes.txt: is a text file, expected PNG"));
  EXPECT_THAT(take({{"skip_unreadable", "true"}}), ElementsAre(folder_ / "new.png"));
}

TEST_F(ImageFolder, TurnsToGreyWhereAsked) {
  one_level();
  const auto data = start({{"channels", "1"}});
  EXPECT_EQ(data->spec().sample_shape, (std::vector<int64_t>{1, 8, 8}));
}

TEST_F(ImageFolder, ReadsATable) {
  one_level();
  text("list.csv", "file,label,split\r\ncat/1.png,10,train\r\n\"cat/2.png\",9,train\r\ncat/3.png,10,val\r\n");
  const auto data = start({{"csv", folder_ / "list.csv"}});
  EXPECT_EQ(data->spec().class_names, (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(data->get(Split::kTrain, std::vector<int64_t>{0}).target.item<int64_t>(), 1);
  EXPECT_THAT(reds(*data, Split::kTrain), ElementsAre(1, 2));
  EXPECT_THAT(reds(*data, Split::kVal), ElementsAre(3));
}

TEST_F(ImageFolder, NamesTheLineOfATableThatIsWrong) {
  one_level();
  const auto table = [&](const std::string& content) {
    text("list.csv", content);
    return problem({{"csv", folder_ / "list.csv"}});
  };
  EXPECT_THAT(table("cat/1.png,cat\n"), HasSubstr("list.csv:1: expected the header file,label"));
  EXPECT_THAT(table("file,label\n\ncat/1.png\n"), HasSubstr("list.csv:3: found 1 fields, expected 2"));
  EXPECT_THAT(table("file,label\na\"b,c\n"), HasSubstr("list.csv:2: a quote"));
  EXPECT_THAT(table("file,label\n\"a,c\n"), HasSubstr("list.csv:2: a quote"));
  EXPECT_THAT(table("file,label,split\na,b,extra\n"), HasSubstr("split \"extra\", expected train, val or test"));
  EXPECT_THAT(table("file,label\n,b\n"), HasSubstr("list.csv:2: the file or its label is empty"));
  EXPECT_THAT(table("file,label\n"), HasSubstr("names no pictures"));
  EXPECT_THAT(table("file,label,split\na,b,train\nd,c,val\n"), HasSubstr("train has no picture of the class c"));
  EXPECT_THAT(table("file,label\nabsent.png,b\n"), HasSubstr("absent.png: cannot be opened"));
}

TEST_F(ImageFolder, RefusesOptionsWithoutEffect) {
  const auto refused = [&](const Settings& settings) {
    return message_of<std::runtime_error>([&] { start(settings); });
  };
  one_level();
  EXPECT_THAT(refused({{"seed", "2"}}),
              HasSubstr("seed: has no effect: neither val_fraction, test_fraction nor folds"));
  EXPECT_THAT(refused({{"flip_mode", "alternating"}}), HasSubstr("flip_mode: has no effect without flip"));
  EXPECT_THAT(refused({{"crop_mode", "reflect"}}), HasSubstr("crop_mode: has no effect without crop_padding"));
}

TEST_F(ImageFolder, SaysWhatATableIsInstead) {
  one_level();
  const auto table = [&](const std::string& content) {
    text("list.csv", content);
    return problem({{"csv", folder_ / "list.csv"}});
  };
  EXPECT_THAT(table("file;label\na;b\n"), HasSubstr("found file;label: fields are separated by semicolons"));
  EXPECT_THAT(table("file\tlabel\na\tb\n"), HasSubstr("separated by tabs"));
  EXPECT_THAT(table("image,class\na,b\n"),
              HasSubstr("list.csv:1: expected the header file,label or file,label,split; found image,class"));
  EXPECT_THAT(table("file,label\ra,b\r"), HasSubstr("lines end with CR alone"));
  EXPECT_THAT(table(std::string("\xFF\xFE"
                                "f\0i\0",
                                6)),
              HasSubstr("is UTF-16, save it as UTF-8"));
  EXPECT_THAT(table("file,label\na,caf\xE9\n"), HasSubstr("list.csv:2: the label caf\uFFFD is not UTF-8"));
  EXPECT_THAT(table("file,label\na,01\nb,1\n"), HasSubstr("\"01\" (line 2) and \"1\" (line 3) differ in no more than"));
  EXPECT_THAT(table("file,label\na,Cat\nb,cat\n"), HasSubstr("differ in no more than"));
  EXPECT_THAT(table(std::string("file,label\na\0.png,b\n", 20)), HasSubstr("list.csv:2: a byte of 0"));
  EXPECT_THAT(table("file,label\n" + std::string(1 << 17, 'a')), HasSubstr("list.csv:2: the line has 131072 bytes"));
}

TEST_F(ImageFolder, TakesBlanksAroundClassesAndTheUsualNamesOfSplits) {
  one_level();
  text("list.csv",
       "\xEF\xBB\xBF"
       "File, Label ,split\ncat/1.png, a,Train\ncat/2.png,a "
       ",training\ndog/1.png,b,train\ndog/2.png,b,valid\ncat/3.png,a,dev\ndog/3.png,b,testing\n");
  const auto data = start({{"csv", folder_ / "list.csv"}});
  EXPECT_EQ(data->spec().class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data->size(Split::kTrain), 3);
  EXPECT_EQ(data->size(Split::kVal), 2);
  EXPECT_EQ(data->size(Split::kTest), 1);
}

TEST_F(ImageFolder, LeavesOutWhatIsDamagedInsideWhereAllowed) {
  one_level();
  auto bytes = read_file(folder_ / "cat/3.png");
  bytes[bytes.size() - 30] ^= 1;
  text("cat/3.png", bytes);
  EXPECT_THAT(problem({{"decode_all", "true"}}), HasSubstr("cat/3.png: is a damaged PNG"));
  const auto data = start({{"skip_unreadable", "true"}});
  EXPECT_EQ(data->size(Split::kTrain), 19);
  EXPECT_EQ(data->account().left_alone.at(0).count, 1);
}

TEST_F(ImageFolder, WorkersBelieveWhatWasFoundBeforeTheRunAsLongAsNoFileChanges) {
  one_level();
  text("cat/x.jpg", "GIF89a");
  const Settings settings{{"skip_unreadable", "true"}};
  load(settings)->prepare(ignore);
  const auto memory = std::filesystem::directory_iterator(cache_.path() / "unreadable")->path();
  const auto found = read_file(memory);
  EXPECT_THAT(found, ::testing::EndsWith("\n0 10\n"));
  const auto left_out = [&](const std::string& remembered) {
    write_file(memory, remembered);
    return start(settings)->account().left_alone.at(0).count;
  };
  const auto state = found.substr(0, found.find('\n') + 1);
  EXPECT_EQ(left_out(state + "0 0\n0 10\n"), 2) << "it is not decoded again";
  for (const std::string broken : {"0 99\n", "7 0\n", "0 0\nx", "-1 0\n"})
    EXPECT_EQ(left_out(state + broken), 1) << broken;
  EXPECT_EQ(left_out(""), 1);
  const auto time = std::filesystem::last_write_time(folder_ / "cat/3.png");
  const auto bytes = read_file(folder_ / "cat/3.png");
  text("cat/3.png", std::string(bytes.size(), 'x'));
  std::filesystem::last_write_time(folder_ / "cat/3.png", time);
  EXPECT_EQ(left_out(found), 2) << "of the same size and time it is another file";
}

TEST_F(ImageFolder, NamesTheOddClass) {
  three_splits();
  png("val/bird/a.png", 1);
  EXPECT_THAT(problem(), HasSubstr("val/bird: a class that train does not have"));
  std::filesystem::remove_all(folder_ / "val/bird");
  std::filesystem::remove_all(folder_ / "test/dog");
  EXPECT_THAT(problem(), HasSubstr("test: lacks the class dog, which train has"));
}

TEST_F(ImageFolder, NamesFoldersWithoutPictures) {
  EXPECT_THAT(problem(), HasSubstr("has no class folders"));
  text("cat/readme.txt", "");
  EXPECT_THAT(problem(), HasSubstr("/cat: has no picture"));
  EXPECT_THAT(
      message_of<UserError>([&] { load_dataset(IMAGE_FOLDER_PLUGIN, {{"root", folder_ / "absent"}})->start(); }),
      HasSubstr("absent: is not a folder"));
}

TEST_F(ImageFolder, ListsUnreadableImagesBeforeAnyWorkerStarts) {
  one_level();
  for (int i = 0; i < 25; ++i) text("cat/x" + std::to_string(i) + ".jpg", "");
  EXPECT_THAT(problem(), AllOf(HasSubstr("25 images cannot be read"), HasSubstr("cat/x0.jpg: is empty"),
                               HasSubstr("and 5 more"), HasSubstr("dataset.skip_unreadable=true")));
}

TEST_F(ImageFolder, LeavesOutUnreadableImagesWhereAllowed) {
  one_level();
  text("cat/x.jpg", "GIF89a");
  const auto data = load({{"skip_unreadable", "true"}});
  std::string last;
  data->prepare([&](const std::string& text, int64_t, int64_t) { last = text; });
  EXPECT_THAT(last, AllOf(HasSubstr("left out: 1 image cannot be read"), HasSubstr("x.jpg: is a GIF, expected PNG")));
  data->start();
  EXPECT_EQ(data->size(Split::kTrain), 20);
}

TEST_F(ImageFolder, NamesAnImageThatTurnsOutDamagedLater) {
  one_level();
  auto bytes = read_file(folder_ / "cat/3.png");
  bytes[bytes.size() - 30] ^= 1;
  text("cat/3.png", bytes);
  EXPECT_THAT(problem(), Not(HasSubstr("3.png")));
  const auto data = start();
  EXPECT_THAT(message_of<UserError>([&] { data->get(Split::kTrain, std::vector<int64_t>{3}); }),
              HasSubstr("cat/3.png: is a damaged PNG"));
}

TEST_F(ImageFolder, NamesAnImageThatIsCutShortBeforeAnyWorkerStarts) {
  one_level();
  for (const auto* name : {"cat/3.png", "dog/a.jpg"}) {
    if (std::string(name).ends_with("jpg")) write_jpeg(place(name), 64, 64, {1, 2, 3});
    const auto bytes = read_file(folder_ / name);
    text(name, bytes.substr(0, bytes.size() - 30));
    EXPECT_THAT(problem(), HasSubstr(std::string(name) + ": is a damaged"));
    write_jpeg(place(name), 64, 64, {1, 2, 3});
  }
}

TEST_F(ImageFolder, NamesAPictureThatATableHasTwice) {
  one_level();
  text("list.csv", "file,label\ncat/1.png,a\ncat/2.png,b\n./cat/1.png,b\n");
  EXPECT_THAT(problem({{"csv", folder_ / "list.csv"}}),
              HasSubstr("list.csv:4: ./cat/1.png is also in line 2; name each picture once"));
}

// A picture whose red tells the column and whose green tells the row.
void write_places(const std::filesystem::path& path, unsigned width, unsigned height) {
  std::vector<unsigned char> bytes;
  for (unsigned y = 0; y < height; ++y) {
    for (unsigned x = 0; x < width; ++x) {
      bytes.insert(bytes.end(), {static_cast<unsigned char>(x), static_cast<unsigned char>(y), 0});
    }
  }
  write_png(path, width, height, bytes);
}

Batch seen(const Dataset& data, const std::vector<int64_t>& numbers, const AugmentKey& key) {
  auto batch = data.draw(numbers, key);
  data.augment(batch, key);
  return batch;
}

TEST_F(ImageFolder, DrawsPartsThatDependOnSampleEpochAndSeedAlone) {
  for (int i = 0; i < 6; ++i) write_places(place("cat/" + std::to_string(i) + ".png"), 60, 40);
  const auto data = start({{"crop_scale", "[0.1, 0.6]"},
                           {"flip", "true"},
                           {"erasing", "0.5"},
                           {"color_jitter", "[0.4, 0.4, 0.4, 0.1]"},
                           {"rotation", "10"},
                           {"trivial_augment", "true"}});
  const AugmentKey key{.seed = 5, .epoch = 2};
  const auto all = seen(*data, {0, 1, 2, 3, 4, 5}, key).input;
  const auto some = seen(*data, {4, 1}, key).input;
  EXPECT_TRUE(some[0].equal(all[4]));
  EXPECT_TRUE(some[1].equal(all[1]));
  EXPECT_FALSE(all[0].equal(all[1]));
  EXPECT_FALSE(seen(*data, {1}, {.seed = 5, .epoch = 3}).input[0].equal(all[1]));
  EXPECT_FALSE(seen(*data, {1}, {.seed = 6, .epoch = 2}).input[0].equal(all[1]));
  EXPECT_TRUE(data->get(Split::kTrain, std::vector<int64_t>{0})
                  .input.equal(start()->get(Split::kTrain, std::vector<int64_t>{0}).input));
}

TEST_F(ImageFolder, APartKeepsTheOrderOfItsPixels) {
  write_places(place("cat/a.png"), 60, 40);
  const auto data = start({{"crop_scale", "[0.2, 1]"}});
  const auto image = data->to_image(data->draw(std::vector<int64_t>{0}, {.seed = 9}).input)[0].to(at::kInt);
  EXPECT_TRUE(image[0].diff(1, 1).gt(0).all().item<bool>());  // columns from left to right
  EXPECT_TRUE(image[1].diff(1, 0).gt(0).all().item<bool>());
}

TEST_F(ImageFolder, FlipsWhileDecodingAsAugmentationWould) {
  for (int i = 0; i < 8; ++i) write_places(place("cat/" + std::to_string(i) + ".png"), 8, 8);
  const std::vector<int64_t> numbers{0, 1, 2, 3, 4, 5, 6, 7};
  const AugmentKey key{.seed = 3, .epoch = 1};
  for (const auto* mode : {"random", "alternating"}) {
    const ImageAugmentation how{.flip = true, .flip_alternates = mode == std::string("alternating"), .cutout = 3};
    const auto data = start({{"flip", "true"}, {"flip_mode", mode}, {"cutout", "3"}});
    const auto plain = data->get(Split::kTrain, numbers);
    const auto black = black_of({.shape = {3, 8, 8}, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}});
    EXPECT_TRUE(seen(*data, numbers, key).input.equal(how.apply(plain.input, plain.index, key, black))) << mode;
  }
}

TEST_F(ImageFolder, NamesOptionsThatDoNotFit) {
  const auto option = [&](const Settings& settings) { return message_of<std::runtime_error>([&] { load(settings); }); };
  EXPECT_THAT(option({{"resize", "7"}}), HasSubstr("dataset.resize: smaller than size, 8"));
  EXPECT_THAT(option({{"crop_scale", "[1, 0.1]"}}), HasSubstr("dataset.crop_scale: expected two numbers"));
  EXPECT_THAT(option({{"crop_ratio", "[1, 1]"}}), HasSubstr("dataset.crop_ratio: has no effect without crop_scale"));
  EXPECT_THAT(option({{"crop_scale", "[0.1, 1]"}, {"crop_padding", "2"}}),
              HasSubstr("dataset.crop_padding: cannot be"));
  EXPECT_THAT(option({{"color_jitter", "[0, 0, 0, 0.6]"}}), HasSubstr("dataset.color_jitter: the hue"));
  EXPECT_THAT(option({{"channels", "2"}}), HasSubstr("dataset.channels: expected 1 or 3"));
  EXPECT_THAT(message_of<std::runtime_error>([] { load_dataset(IMAGE_FOLDER_PLUGIN, Settings{}); }),
              HasSubstr("dataset.root: missing"));
}

}  // namespace
}  // namespace ddprun::test
