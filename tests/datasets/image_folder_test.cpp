// SPDX-License-Identifier: MIT
#include "picture_folder.h"

#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <set>

namespace ddprun::test {
namespace {

using ::testing::ElementsAre;

class ImageFolder : public PictureFolder {
 protected:
  void three_splits() const {
    png("train/cat/b.png", 2);
    png("train/cat/a.PNG", 1);
    write_jpeg(place("train/dog/c.jpeg"), 9, 9, {200, 0, 0});
    png("val/cat/a.png", 3);
    png("val/dog/a.png", 4);
    png("test/cat/a.png", 5);
    png("test/dog/a.png", 6);
  }

  void one_level() const {
    for (unsigned char i = 0; i < 10; ++i) {
      png("cat/" + std::to_string(i) + ".png", i);
      png("dog/" + std::to_string(i) + ".png", static_cast<unsigned char>(100 + i));
    }
  }

  // With a table of this content.
  Settings with_table(const std::string& content) const {
    text("list.csv", content);
    return {{"csv", place("list.csv")}};
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

  // Of all splits; each counts once.
  static std::set<int> all_reds(const Dataset& data) {
    std::set<int> all;
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
      for (const int red : reds(data, split)) EXPECT_TRUE(all.insert(red).second) << red;
    }
    return all;
  }
};

TEST_F(ImageFolder, ReadsTheSplitsInTheOrderOfTheNames) {
  three_splits();
  const auto data = start();
  EXPECT_TRUE(data->is_prepared());
  EXPECT_EQ(data->spec().class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data->spec().sample_shape, (std::vector<int64_t>{3, 8, 8}));
  const auto train = reds(*data, Split::kTrain);
  EXPECT_EQ(train[0], 1);
  EXPECT_EQ(train[1], 2);
  EXPECT_NEAR(train[2], 200, 3);
  EXPECT_THAT(reds(*data, Split::kVal), ElementsAre(3, 4));
  EXPECT_THAT(reds(*data, Split::kTest), ElementsAre(5, 6));
  const auto batch = data->get(Split::kTrain, Numbers{2, 0});
  EXPECT_TRUE(batch.target.equal(at::tensor({1, 0}, at::kLong)));
  EXPECT_TRUE(batch.index.equal(at::tensor({2, 0}, at::kLong)));
  EXPECT_TRUE(data->labels(Split::kTrain).equal(first(*data, Split::kTrain, 3).target));
  const auto image = data->to_image(data->get(Split::kTest, Numbers{1}).input);
  EXPECT_TRUE(image.equal(at::tensor({6, 0, 0}, at::kByte).view({1, 3, 1, 1}).expand({1, 3, 8, 8})));
  EXPECT_EQ(start({{"channels", "1"}})->spec().sample_shape, (std::vector<int64_t>{1, 8, 8}));
}

TEST_F(ImageFolder, HoldsOutTheSameImagesForASeed) {
  one_level();
  const auto data = start({{"val_fraction", "0.2"}, {"test_fraction", "0.25"}});
  EXPECT_EQ(data->size(Split::kTrain), 11);
  EXPECT_EQ(data->size(Split::kVal), 4);
  EXPECT_EQ(data->size(Split::kTest), 5);
  EXPECT_EQ(all_reds(*data).size(), 20U);
  const auto val = reds(*data, Split::kVal);
  EXPECT_EQ(reds(*start({{"val_fraction", "0.2"}}), Split::kVal), val);
  EXPECT_NE(reds(*start({{"val_fraction", "0.2"}, {"seed", "2"}}), Split::kVal), val);
  EXPECT_TRUE(says(problem({{"val_fraction", "0.01"}}), "cannot hold out 0 of 20 training images as val"));
}

TEST_F(ImageFolder, HoldsOutEachImageInOneFoldAndTheSameTestImagesInAll) {
  one_level();
  std::set<int> held_out;
  std::vector<int> test;
  for (const auto* fold : {"0", "1", "2", "3", "4"}) {
    const auto data = start({{"folds", "5"}, {"fold", fold}, {"test_fraction", "0.25"}});
    if (test.empty()) test = reds(*data, Split::kTest);
    EXPECT_EQ(reds(*data, Split::kTest), test);
    EXPECT_EQ(all_reds(*data).size(), 20U);
    for (const int red : reds(*data, Split::kVal)) EXPECT_TRUE(held_out.insert(red).second) << red;
  }
  EXPECT_EQ(held_out.size(), 15U);
  EXPECT_TRUE(says(problem({{"folds", "21"}}), "dataset.folds is 21, expected 2 to 20"));
}

TEST_F(ImageFolder, TakesNewImagesInThePlaceOfTest) {
  three_splits();
  text("notes.txt");
  png("new.png", 77);
  const auto data = start();
  EXPECT_THAT(data->use_inputs({place("new.png"), place("test/cat/a.png")}),
              ElementsAre(place("new.png"), place("test/cat/a.png")));
  EXPECT_THAT(reds(*data, Split::kTest), ElementsAre(77, 5));
  const auto take = [&](const Settings& settings) {
    return start(settings)->use_inputs({place("notes.txt"), place("new.png")});
  };
  EXPECT_TRUE(says(error_of([&] { take({}); }), "notes.txt: is a text file, expected PNG"));
  EXPECT_THAT(take({{"skip_unreadable", "true"}}), ElementsAre(place("new.png")));
}

TEST_F(ImageFolder, ReadsATable) {
  one_level();
  const auto data =
      start(with_table("file,label,split\r\ncat/1.png,10,train\r\n\"cat/2.png\",9,train\r\ncat/3.png,10,val\r\n"));
  EXPECT_EQ(data->spec().class_names, (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(data->get(Split::kTrain, Numbers{0}).target.item<int64_t>(), 1);
  EXPECT_THAT(reds(*data, Split::kTrain), ElementsAre(1, 2));
  EXPECT_THAT(reds(*data, Split::kVal), ElementsAre(3));
  const auto odd =
      start(with_table("\xEF\xBB\xBF"
                       "File, Label ,split\ncat/1.png, a,Train\ncat/2.png,a ,training\ndog/1.png,b,train\n"
                       "dog/2.png,b,valid\ncat/3.png,a,dev\ndog/3.png,b,testing\n"));
  EXPECT_EQ(odd->spec().class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(odd->size(Split::kTrain), 3);
  EXPECT_EQ(odd->size(Split::kVal), 2);
  EXPECT_EQ(odd->size(Split::kTest), 1);
}

TEST_F(ImageFolder, NamesTheLineOfATableThatIsWrong) {
  one_level();
  expect_refused(
      [&](const std::string& content) { return problem(with_table(content)); },
      {{"cat/1.png,cat\n", "list.csv:1: expected the header file,label"},
       {"file;label\na;b\n", "found file;label: fields are separated by semicolons"},
       {"file\tlabel\na\tb\n", "separated by tabs"},
       {"image,class\na,b\n", "list.csv:1: expected the header file,label or file,label,split; found image,class"},
       {"file,label\ra,b\r", "lines end with CR alone"},
       {std::string("\xFF\xFE") + std::string("f\0i\0", 4), "is UTF-16, save it as UTF-8"},
       {"file,label\n\ncat/1.png\n", "list.csv:3: found 1 fields, expected 2"},
       {"file,label\na\"b,c\n", "list.csv:2: a quote"},
       {"file,label\n\"a,c\n", "list.csv:2: a quote"},
       {"file,label,split\na,b,extra\n", "split \"extra\", expected train, val or test"},
       {"file,label\n,b\n", "list.csv:2: the file or its label is empty"},
       {"file,label\n", "names no pictures"},
       {"file,label,split\na,b,train\nd,c,val\n", "train has no picture of the class c"},
       {"file,label\nabsent.png,b\n", "absent.png: cannot be opened"},
       {"file,label\ncat/1.png,a\ncat/2.png,b\n./cat/1.png,b\n",
        "list.csv:4: ./cat/1.png is also in line 2; name each picture once"},
       {"file,label\na,caf\xE9\n", "list.csv:2: the label caf\uFFFD is not UTF-8"},
       {"file,label\na,01\nb,1\n", "\"01\" (line 2) and \"1\" (line 3) differ in no more than"},
       {"file,label\na,Cat\nb,cat\n", "differ in no more than"},
       {std::string("file,label\na\0.png,b\n", 20), "list.csv:2: a byte of 0"},
       {"file,label\n" + std::string(1 << 17, 'a'), "list.csv:2: the line has 131072 bytes"}});
}

TEST_F(ImageFolder, RefusesOptionsThatDoNotFitOrHaveNoEffect) {
  one_level();
  expect_refused<Settings>([&](const Settings& settings) { return problem(settings); },
                           {{{{"root", place("absent")}}, "absent: is not a folder"},
                            {{{"seed", "2"}}, "seed: has no effect: neither val_fraction, test_fraction nor folds"},
                            {{{"flip_mode", "alternating"}}, "flip_mode: has no effect without flip"},
                            {{{"crop_mode", "reflect"}}, "crop_mode: has no effect without crop_padding"},
                            {{{"resize", "7"}}, "dataset.resize: smaller than size, 8"},
                            {{{"crop_scale", "[1, 0.1]"}}, "dataset.crop_scale: expected two numbers"},
                            {{{"crop_ratio", "[1, 1]"}}, "dataset.crop_ratio: has no effect without crop_scale"},
                            {{{"crop_scale", "[0.1, 1]"}, {"crop_padding", "2"}}, "dataset.crop_padding: cannot be"},
                            {{{"color_jitter", "[0, 0, 0, 0.6]"}}, "dataset.color_jitter: the hue"},
                            {{{"channels", "2"}}, "dataset.channels: expected 1 or 3"}});
  EXPECT_TRUE(says(error_of([] { load_dataset(IMAGE_FOLDER_PLUGIN, {}); }), "dataset.root: missing"));
}

TEST_F(ImageFolder, NamesTheOddClassAndFoldersWithoutPictures) {
  three_splits();
  png("val/bird/a.png", 1);
  EXPECT_TRUE(says(problem(), "val/bird: a class that train does not have"));
  std::filesystem::remove_all(place("val/bird"));
  std::filesystem::remove_all(place("test/dog"));
  EXPECT_TRUE(says(problem(), "test: lacks the class dog, which train has"));
  std::filesystem::remove_all(root_);
  std::filesystem::create_directory(root_);
  EXPECT_TRUE(says(problem(), "has no class folders"));
  text("cat/readme.txt", "");
  EXPECT_TRUE(says(problem(), "/cat: has no picture"));
}

TEST_F(ImageFolder, ListsUnreadableImagesBeforeAnyWorkerStartsAndLeavesThemOutWhereAllowed) {
  one_level();
  for (int i = 0; i < 25; ++i) text("cat/x" + std::to_string(i) + ".jpg", "");
  EXPECT_TRUE(says(
      problem(), "25 images cannot be read ... cat/x0.jpg: is empty ... and 5 more ... dataset.skip_unreadable=true"));
  for (int i = 1; i < 25; ++i) std::filesystem::remove(place("cat/x" + std::to_string(i) + ".jpg"));
  text("cat/x0.jpg", "GIF89a");
  std::string last;
  const auto data =
      prepare({{"skip_unreadable", "true"}}, [&](const std::string& text, int64_t, int64_t) { last = text; });
  EXPECT_TRUE(says(last, "left out: 1 image cannot be read ... x0.jpg: is a GIF, expected PNG"));
  EXPECT_EQ(data->size(Split::kTrain), 20);
}

TEST_F(ImageFolder, NamesAnImageThatIsDamagedInsideWhenItIsReadOrBeforeWhereAsked) {
  one_level();
  damage("cat/3.png");
  const auto data = prepare();
  EXPECT_TRUE(says(error_of([&] { data->get(Split::kTrain, Numbers{3}); }), "cat/3.png: is a damaged PNG"));
  EXPECT_TRUE(says(problem({{"decode_all", "true"}}), "cat/3.png: is a damaged PNG"));
  const auto rest = prepare({{"skip_unreadable", "true"}});
  EXPECT_EQ(rest->size(Split::kTrain), 19);
  EXPECT_EQ(rest->account().left_alone.at(0).count, 1);
  const auto bytes = read(place("dog/3.png"));
  text("dog/3.png", bytes.substr(0, bytes.size() - 30));
  EXPECT_TRUE(says(problem(), "dog/3.png: is a damaged PNG")) << "cut short it is found before any worker starts";
}

TEST_F(ImageFolder, WorkersBelieveWhatWasFoundBeforeTheRunAsLongAsNoFileChanges) {
  one_level();
  text("cat/x.jpg", "GIF89a");
  const Settings settings{{"skip_unreadable", "true"}};
  load(settings)->prepare(ignore);
  const auto memory = std::filesystem::directory_iterator(cache_.path() / "unreadable")->path();
  const auto found = read(memory);
  EXPECT_THAT(found, ::testing::EndsWith("\n0 10\n"));
  const auto left_out = [&](const std::string& remembered) {
    write(memory, remembered);
    return start(settings)->account().left_alone.at(0).count;
  };
  const auto state = found.substr(0, found.find('\n') + 1);
  EXPECT_EQ(left_out(state + "0 0\n0 10\n"), 2) << "it is not decoded again";
  for (const auto& broken : {state + "0 99\n", state + "7 0\n", state + "0 0\nx", state + "-1 0\n", std::string()})
    EXPECT_EQ(left_out(broken), 1) << broken;
  const auto time = std::filesystem::last_write_time(place("cat/3.png"));
  text("cat/3.png", std::string(read(place("cat/3.png")).size(), 'x'));
  std::filesystem::last_write_time(place("cat/3.png"), time);
  EXPECT_EQ(left_out(found), 2) << "of the same size and time it is another file";
}

// A picture whose red says the column and whose green says the row.
void write_places(const std::filesystem::path& path, unsigned width, unsigned height) {
  std::vector<unsigned char> bytes;
  for (unsigned y = 0; y < height; ++y) {
    for (unsigned x = 0; x < width; ++x)
      bytes.insert(bytes.end(), {static_cast<unsigned char>(x), static_cast<unsigned char>(y), 0});
  }
  write_png(path, width, height, bytes);
}

Batch seen(const Dataset& data, const Numbers& numbers, const AugmentKey& key) {
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
  EXPECT_TRUE(seen(*data, {4, 1}, key).input.equal(all.index_select(0, at::tensor({4, 1}, at::kLong))));
  EXPECT_FALSE(all[0].equal(all[1]));
  for (const auto& other : {AugmentKey{.seed = 5, .epoch = 3}, {.seed = 6, .epoch = 2}})
    EXPECT_FALSE(seen(*data, {1}, other).input[0].equal(all[1]));
  EXPECT_TRUE(first(*data, Split::kTrain, 1).input.equal(first(*start(), Split::kTrain, 1).input));

  const auto parts = start({{"crop_scale", "[0.2, 1]"}});
  const auto image = parts->to_image(parts->draw(Numbers{0}, {.seed = 9}).input)[0].to(at::kInt);
  EXPECT_TRUE(image[0].diff(1, 1).gt(0).all().item<bool>()) << "columns from left to right";
  EXPECT_TRUE(image[1].diff(1, 0).gt(0).all().item<bool>());
}

TEST_F(ImageFolder, FlipsWhileDecodingAsAugmentationWould) {
  for (int i = 0; i < 8; ++i) write_places(place("cat/" + std::to_string(i) + ".png"), 8, 8);
  const Numbers numbers{0, 1, 2, 3, 4, 5, 6, 7};
  const AugmentKey key{.seed = 3, .epoch = 1};
  for (const bool alternates : {false, true}) {
    const ImageAugmentation how{.flip = true, .flip_alternates = alternates, .cutout = 3};
    const auto data = start({{"flip", "true"}, {"flip_mode", alternates ? "alternating" : "random"}, {"cutout", "3"}});
    const auto plain = data->get(Split::kTrain, numbers);
    const auto black = black_of({.shape = {3, 8, 8}, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}});
    EXPECT_TRUE(seen(*data, numbers, key).input.equal(how.apply(plain.input, plain.index, key, black))) << alternates;
  }
}

}  // namespace
}  // namespace ddprun::test
