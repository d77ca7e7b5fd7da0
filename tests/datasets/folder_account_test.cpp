// SPDX-License-Identifier: MIT
// Folders of pictures as people have them: what is read, what is refused, and that nothing is passed over in silence.
#include "idx_writer.h"
#include "image_writer.h"
#include "plugin_under_test.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <map>

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OddFolder : public ::testing::Test {
 protected:
  fs::path place(const std::string& name) {
    const auto path = folder_ / "photos" / name;
    fs::create_directories(path.parent_path());
    return path;
  }
  void put(const std::string& name) { write_png(place(name), 10, 12, ++red_, 0, 0); }
  void text(const std::string& name, const std::string& bytes = "no picture") { write_file(place(name), bytes); }

  std::shared_ptr<Dataset> start(Settings settings = {}) {
    settings.insert(settings.begin(), {{"root", folder_ / "photos"}, {"size", "8"}});
    auto data = load_dataset(IMAGE_FOLDER_PLUGIN, settings);
    data->prepare([](const std::string&, int64_t, int64_t) {});
    data->start();
    return data;
  }
  std::string problem(const Settings& settings = {}) {
    return message_of<UserError>([&] { start(settings); });
  }

  // Counts all that lies there and is no folder; a link to a folder counts as one.
  int64_t files_there() const {
    int64_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "photos"))
      count += entry.symlink_status().type() == fs::file_type::directory ? 0 : 1;
    return count;
  }

  static std::map<std::string, int64_t> reasons(const Dataset& data) {
    std::map<std::string, int64_t> counts;
    for (const auto& left : data.account().left_alone) counts[left.reason] = left.count;
    return counts;
  }

  static int64_t all_of(const DataAccount& account) {
    int64_t all = account.used;
    for (const auto& left : account.left_alone) all += left.count;
    return all;
  }

  // Pictures at other places and of other names than expected, and all that lies beside them.
  void every_oddity() {
    put("train/cat/a.png");
    put("train/cat/session_2/b.png");
    put("train/cat/session_2/deep/er/c.PNG");
    put("train/dog/name without ending");
    put("train/dog/wrong.dat");
    put("train/dog/trailing.png ");
    put("train/dog/scan.JPG");
    write_jpeg(place("train/dog/x.jfif"), 9, 9, {1, 2, 3});
    write_jpeg(place("train/dog/x.jpe"), 9, 9, {1, 2, 3});
    put("Validation/cat/a.png");
    put("Validation/dog/a.png");
    put("TESTING/cat/a.png");
    put("TESTING/dog/a.png");
    text("train/cat/notes.txt");
    text("train/cat/session_2/labels.json");
    text("train/cat/README");
    text("train/cat/empty", "");
    text("train/cat/._a.png");
    text("train/cat/Thumbs.db");
    text("train/cat/.ipynb_checkpoints/a.png");
    text("__MACOSX/train/cat/._a.png");
    text("train/__MACOSX/x.png");
    text(".git/config");
    put("cover.png");
    text("LICENSE");
    put("train/loose.png");
    text("annotations/a.xml");
    text("annotations/deeper/b.xml");
    fs::create_symlink("nowhere", place("train/cat/gone"));
    fs::create_directory_symlink("..", place("train/cat/again"));
    EXPECT_EQ(::mkfifo(place("train/cat/queue").c_str(), 0600), 0);
  }

  // The header of a BMP.
  static inline const std::string kBitmap = "BM" + std::string(12, '\0') + "(" + std::string(39, '\0');

  TestFolder folder_;
  OwnCache cache_;
  unsigned char red_ = 0;
};

TEST_F(OddFolder, IsAccountedForToTheLastFile) {
  every_oddity();
  const auto data = start();
  EXPECT_EQ(data->size(Split::kTrain), 9);
  EXPECT_EQ(data->size(Split::kVal), 2);
  EXPECT_EQ(data->size(Split::kTest), 2);
  const auto account = data->account();
  EXPECT_EQ(account.used, 13);
  EXPECT_EQ(all_of(account), files_there());
  EXPECT_EQ(reasons(*data), (std::map<std::string, int64_t>{{".txt", 1},
                                                            {".json", 1},
                                                            {"without an ending", 3},
                                                            {"hidden or of the system", 6},
                                                            {"pictures outside a class folder", 2},
                                                            {"in folders that are no splits", 2},
                                                            {"links that lead nowhere", 1},
                                                            {"links to a folder above them", 1},
                                                            {"pipes, sockets or devices", 1}}));
}

TEST_F(OddFolder, RefusesByNameWhatIsCalledAPictureAndCannotBeRead) {
  put("cat/a.png");
  put("dog/a.png");
  text("cat/scan.tif", std::string("II*\0\10\0\0\0", 8));
  text("cat/moving.gif", "GIF89a");
  text("cat/bitmap", kBitmap);
  text("dog/grey.pgm", "P5 2 1 255\nab");
  text("cat/unnamed", std::string("\0\0\0\x18"
                                  "ftypheic",
                                  12));
  ASSERT_EQ(::mkfifo(place("dog/pipe.png").c_str(), 0600), 0);
  fs::create_symlink("nowhere", place("dog/gone.jpg"));
  EXPECT_THAT(
      problem(),
      AllOf(HasSubstr("cat/scan.tif: is a TIFF, expected PNG"), HasSubstr("cat/moving.gif: is a GIF"),
            HasSubstr("cat/bitmap: is a BMP"), HasSubstr("dog/grey.pgm: is a PNM"), HasSubstr("cat/unnamed: is a HEIF"),
            HasSubstr("dog/pipe.png: is a named pipe, expected a file"), HasSubstr("dog/gone.jpg: cannot be opened")));
  const auto data = start({{"skip_unreadable", "true"}});
  EXPECT_EQ(reasons(*data), (std::map<std::string, int64_t>{{"unreadable", 7}}));
  EXPECT_EQ(all_of(data->account()), files_there());
}

TEST_F(OddFolder, OfBitmapsAloneSaysWhatTheyAreAndHowToConvertThem) {
  text("cat/1.bmp", kBitmap);
  text("dog/1.ppm", "P6 1 1 255\nabc");
  EXPECT_THAT(problem(),
              AllOf(HasSubstr("photos: 2 images cannot be read"),
                    HasSubstr("cat/1.bmp: is a BMP, expected PNG, JPEG or WebP; convert it (mogrify -format png FILE)"),
                    HasSubstr("dog/1.ppm: is a PNM"), HasSubstr("Replace or remove them")));
  EXPECT_THAT(problem({{"skip_unreadable", "true"}}), HasSubstr("photos: no image of train can be read"));
}

TEST_F(OddFolder, LosesNoSplitAndNoClassToWhatCannotBeRead) {
  for (const auto* name : {"train/a/1.png", "train/b/1.png", "train/b/2.png", "test/a/1.png", "test/b/1.png"})
    put(name);
  text("val/a/1.png");
  text("val/b/1.png");
  EXPECT_THAT(problem({{"skip_unreadable", "true"}}), HasSubstr("photos: no image of val can be read"));
  put("val/b/1.png");
  text("train/a/1.png");
  EXPECT_THAT(problem({{"skip_unreadable", "true"}}), HasSubstr("photos: no image of the class a can be read"));
}

TEST_F(OddFolder, TakesTheUsualNamesOfSplitsAndRefusesTwoOfOne) {
  for (const auto* val : {"valid", "validation", "VAL", "Dev", "eval"}) {
    put("Train/a/1.png");
    put(std::string(val) + "/a/1.png");
    EXPECT_EQ(start()->size(Split::kVal), 1) << val;
    put("Val_2/a/1.png");
    EXPECT_THAT(problem(), HasSubstr("Val_2: is no split that is read, and seems to be one")) << val;
    fs::remove_all(folder_ / "photos");
  }
  put("train/a/1.png");
  put("val/a/1.png");
  put("valid/a/1.png");
  EXPECT_THAT(problem(), HasSubstr("val and valid are both the split val; keep one"));
}

TEST_F(OddFolder, RefusesASplitThatNobodyWouldRead) {
  put("train/a/1.png");
  put("test/a/1.png");
  for (const auto* name : {"val_images/1.png", "holdout/a/1.png", "valid2017/x/1.png"}) {
    put(name);
    EXPECT_THAT(problem(), HasSubstr("is no split that is read, and seems to be one")) << name;
    fs::remove_all(folder_ / "photos" / fs::path(name).begin()->string());
  }
  fs::remove_all(folder_ / "photos/train");
  put("val/a/1.png");
  EXPECT_THAT(problem(), HasSubstr("has no folder train beside "));
}

TEST_F(OddFolder, TakesNoFoldersForClassesThatMentionSplits) {
  for (const auto* picture : {"/a/1.png", "/1.png"}) {
    fs::remove_all(folder_ / "photos");
    for (const auto* name : {"train_images", "images_val"}) put(name + std::string(picture));
    EXPECT_THAT(problem(), HasSubstr("train_images, images_val seem to be splits, and would be read as classes"));
  }
  put("bus/1.png");
  EXPECT_EQ(start()->spec().classes, 3);
}

TEST_F(OddFolder, KnowsClassesThatAreCalledLikeSplits) {
  for (const auto* name : {"bus", "train", "tram"}) put(std::string(name) + "/1.png");
  EXPECT_EQ(start()->spec().class_names, (std::vector<std::string>{"bus", "train", "tram"}));
  fs::remove_all(folder_ / "photos");
  put("train/1.png");
  put("val/1.png");
  EXPECT_THAT(problem(), HasSubstr("train: has no class folders"));
}

TEST_F(OddFolder, RefusesNamesThatAreAlikeOrUnfit) {
  const auto twice = [&](const std::string& one, const std::string& other) {
    fs::remove_all(folder_ / "photos");
    put(one + "/1.png");
    put(other + "/1.png");
    return problem();
  };
  EXPECT_THAT(twice("cat", "Cat"), HasSubstr("the classes \"Cat\" and \"cat\" differ in no more than"));
  EXPECT_THAT(twice("cat", "cat "), HasSubstr("\"cat\" and \"cat \""));
  EXPECT_THAT(twice("01", "1"), HasSubstr("\"01\" and \"1\""));
  EXPECT_THAT(twice("ice cream", "Ice  Cream"), HasSubstr("differ in no more than"));
  EXPECT_EQ(twice("0", "00a"), "nothing thrown");
  EXPECT_EQ(twice("10", "1"), "nothing thrown");
  EXPECT_EQ(twice("caf\u00e9", "cafe\u0301"), "nothing thrown") << "of letters with accents each byte counts";
  EXPECT_THAT(twice("a", "caf\xe9"), HasSubstr("caf\uFFFD: the class's name is not UTF-8; rename the folder"));
  EXPECT_THAT(twice("a", "b\nc"), HasSubstr("b?c: the class's name has a control character"));
  put("train/cat/1.png");
  put("val/Cat/1.png");
  fs::remove_all(folder_ / "photos/a");
  fs::remove_all(folder_ / "photos/b\nc");
  EXPECT_THAT(problem(),
              HasSubstr("val/Cat: a class that train does not have; its name and \"cat\" differ in no more than"));
}

TEST_F(OddFolder, SaysWhichFolderHasTheClassesIfOneTooMany) {
  put("pets/cat/1.png");
  put("pets/dog/1.png");
  EXPECT_THAT(problem(), AllOf(HasSubstr("has one folder, pets, with folders in it"), HasSubstr("photos/pets")));
}

TEST_F(OddFolder, ATableLeavesAloneWhatItDoesNotName) {
  for (const auto* name : {"a.png", "b.png", "more/c.png", "d.png"}) put(name);
  text("notes.txt");
  auto bytes = read_file(folder_ / "photos/b.png");
  bytes[bytes.size() - 30] ^= 1;
  text("b.png", bytes);
  text("list.csv", "file,label\na.png,x\nb.png,x\nmore/c.png,y\n");
  const auto data = start({{"csv", folder_ / "photos/list.csv"}, {"skip_unreadable", "true"}});
  EXPECT_EQ(data->account().used, 2);
  EXPECT_EQ(all_of(data->account()), files_there());
  EXPECT_EQ(reasons(*data),
            (std::map<std::string, int64_t>{
                {"unreadable", 1}, {"pictures that the table does not name", 1}, {".csv", 1}, {".txt", 1}}));
}

TEST_F(OddFolder, HasADigestOfNamesSizesAndLabels) {
  put("cat/a.png");
  put("dog/a.png");
  const auto digest = [&] { return start()->account().digest; };
  const auto first = digest();
  EXPECT_EQ(first.size(), 64U);
  EXPECT_EQ(digest(), first);
  fs::rename(folder_ / "photos", folder_ / "moved");
  fs::create_directory(folder_ / "photos");
  fs::rename(folder_ / "moved/cat", folder_ / "photos/cat");
  fs::rename(folder_ / "moved/dog", folder_ / "photos/dog");
  EXPECT_EQ(digest(), first);
  fs::rename(folder_ / "photos/cat/a.png", folder_ / "photos/cat/b.png");
  EXPECT_NE(digest(), first);
}

}  // namespace
}  // namespace ddprun::test
