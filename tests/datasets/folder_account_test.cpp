// SPDX-License-Identifier: MIT
// Folders of pictures as people have them: what is read, what is refused, and that nothing is passed over in silence.
#include "picture_folder.h"

#include <sys/stat.h>

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;
using Counts = std::map<std::string, int64_t>;

class OddFolder : public PictureFolder {
 protected:
  void put(const std::string& name) { png(name, ++red_); }

  // Of a folder that has these pictures alone.
  std::string problem_of(const std::vector<std::string>& pictures) {
    fs::remove_all(root_);
    for (const auto& name : pictures) put(name);
    return problem();
  }

  // Counts all that lies there and is no folder; a link to a folder counts as one.
  int64_t files_there() const {
    int64_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root_))
      count += entry.symlink_status().type() == fs::file_type::directory ? 0 : 1;
    return count;
  }

  // Pictures at other places and of other names than expected, and all that lies beside them.
  void every_oddity() {
    for (const auto* name : {"train/cat/a.png", "train/cat/session_2/b.png", "train/cat/session_2/deep/er/c.PNG",
                             "train/dog/name without ending", "train/dog/wrong.dat", "train/dog/trailing.png ",
                             "train/dog/scan.JPG", "Validation/cat/a.png", "Validation/dog/a.png", "TESTING/cat/a.png",
                             "TESTING/dog/a.png", "cover.png", "train/loose.png"})
      put(name);
    for (const auto* name : {"train/dog/x.jfif", "train/dog/x.jpe"}) write_jpeg(place(name), 9, 9, {1, 2, 3});
    for (const auto* name :
         {"train/cat/notes.txt", "train/cat/session_2/labels.json", "train/cat/README", "train/cat/._a.png",
          "train/cat/Thumbs.db", "train/cat/.ipynb_checkpoints/a.png", "__MACOSX/train/cat/._a.png",
          "train/__MACOSX/x.png", ".git/config", "LICENSE", "annotations/a.xml", "annotations/deeper/b.xml"})
      text(name);
    text("train/cat/empty", "");
    fs::create_symlink("nowhere", place("train/cat/gone"));
    fs::create_directory_symlink("..", place("train/cat/again"));
    EXPECT_EQ(::mkfifo(place("train/cat/queue").c_str(), 0600), 0);
  }

  // The header of a BMP.
  static inline const std::string kBitmap = "BM" + std::string(12, '\0') + "(" + std::string(39, '\0');

  unsigned char red_ = 0;
};

TEST_F(OddFolder, IsAccountedForToTheLastFile) {
  every_oddity();
  const auto data = prepare();
  EXPECT_EQ(data->size(Split::kTrain), 9);
  EXPECT_EQ(data->size(Split::kVal), 2);
  EXPECT_EQ(data->size(Split::kTest), 2);
  EXPECT_EQ(data->account().used, 13);
  EXPECT_EQ(all_of(data->account()), files_there());
  EXPECT_EQ(reasons(*data), (Counts{{".txt", 1},
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
  text("cat/unnamed", std::string("\0\0\0\x18", 4) + "ftypheic");
  ASSERT_EQ(::mkfifo(place("dog/pipe.png").c_str(), 0600), 0);
  fs::create_symlink("nowhere", place("dog/gone.jpg"));
  const auto text = problem();
  for (const auto* words : {"cat/scan.tif: is a TIFF, expected PNG", "cat/moving.gif: is a GIF", "cat/bitmap: is a BMP",
                            "dog/grey.pgm: is a PNM", "cat/unnamed: is a HEIF",
                            "dog/pipe.png: is a named pipe, expected a file", "dog/gone.jpg: cannot be opened"})
    EXPECT_TRUE(says(text, words));
  const auto data = prepare({{"skip_unreadable", "true"}});
  EXPECT_EQ(reasons(*data), (Counts{{"unreadable", 7}}));
  EXPECT_EQ(all_of(data->account()), files_there());
}

TEST_F(OddFolder, OfBitmapsAloneSaysWhatTheyAreAndHowToConvertThem) {
  text("cat/1.bmp", kBitmap);
  text("dog/1.ppm", "P6 1 1 255\nabc");
  EXPECT_TRUE(says(problem(),
                   "photos: 2 images cannot be read ... cat/1.bmp: is a BMP, expected PNG, JPEG or WebP; convert it "
                   "(mogrify -format png FILE) ... dog/1.ppm: is a PNM ... Replace or remove them"));
  EXPECT_TRUE(says(problem({{"skip_unreadable", "true"}}), "photos: no image of train can be read"));
}

TEST_F(OddFolder, LosesNoSplitAndNoClassToWhatCannotBeRead) {
  for (const auto* name : {"train/a/1.png", "train/b/1.png", "train/b/2.png", "test/a/1.png", "test/b/1.png"})
    put(name);
  text("val/a/1.png");
  text("val/b/1.png");
  EXPECT_TRUE(says(problem({{"skip_unreadable", "true"}}), "photos: no image of val can be read"));
  put("val/b/1.png");
  text("train/a/1.png");
  EXPECT_TRUE(says(problem({{"skip_unreadable", "true"}}), "photos: no image of the class a can be read"));
}

TEST_F(OddFolder, TakesTheUsualNamesOfSplitsAndRefusesWhatSeemsToBeOneOrMakesTwo) {
  for (const std::string val : {"valid", "validation", "VAL", "Dev", "eval"}) {
    EXPECT_EQ(problem_of({"Train/a/1.png", val + "/a/1.png"}), "");
    EXPECT_EQ(start()->size(Split::kVal), 1) << val;
  }
  const std::string seems = "is no split that is read, and seems to be one", train = "train/a/1.png",
                    test = "test/a/1.png",
                    both = "train_images, images_val seem to be splits, and would be read as classes";
  expect_refused<std::vector<std::string>>(
      [&](const auto& pictures) { return problem_of(pictures); },
      {{{train, "val/a/1.png", "Val_2/a/1.png"}, "Val_2: " + seems},
       {{train, test, "val_images/1.png"}, seems},
       {{train, test, "holdout/a/1.png"}, seems},
       {{train, test, "valid2017/x/1.png"}, seems},
       {{test, "val/a/1.png"}, "has no folder train beside "},
       {{train, "val/a/1.png", "valid/a/1.png"}, "val and valid are both the split val"},
       {{"train_images/a/1.png", "images_val/a/1.png"}, both},
       {{"train_images/1.png", "images_val/1.png"}, both},
       {{"train/1.png", "val/1.png"}, "train: has no class folders"},
       {{"pets/cat/1.png", "pets/dog/1.png"}, "has one folder, pets, with folders in it ... photos/pets"}});
  EXPECT_EQ(problem_of({"train_images/1.png", "images_val/1.png", "bus/1.png"}), "");
  EXPECT_EQ(start()->spec().classes, 3);
  EXPECT_EQ(problem_of({"bus/1.png", "train/1.png", "tram/1.png"}), "");
  EXPECT_EQ(start()->spec().class_names, (std::vector<std::string>{"bus", "train", "tram"}));
}

TEST_F(OddFolder, RefusesNamesThatAreAlikeOrUnfit) {
  const auto classes = [&](const std::pair<std::string, std::string>& both) {
    return problem_of({both.first + "/1.png", both.second + "/1.png"});
  };
  expect_refused<std::pair<std::string, std::string>>(
      classes, {{{"cat", "Cat"}, "the classes \"Cat\" and \"cat\" differ in no more than"},
                {{"cat", "cat "}, "\"cat\" and \"cat \""},
                {{"01", "1"}, "\"01\" and \"1\""},
                {{"ice cream", "Ice  Cream"}, "differ in no more than"},
                {{"0", "00a"}, ""},
                {{"10", "1"}, ""},
                {{"caf\u00e9", "cafe\u0301"}, ""},  // of letters with accents each byte counts
                {{"a", "caf\xe9"}, "caf\uFFFD: the class's name is not UTF-8; rename the folder"},
                {{"a", "b\nc"}, "b?c: the class's name has a control character"},
                {{"train/cat", "val/Cat"},
                 "val/Cat: a class that train does not have; its name and \"cat\" differ in no more than"}});
}

TEST_F(OddFolder, ATableLeavesAloneWhatItDoesNotName) {
  for (const auto* name : {"a.png", "b.png", "more/c.png", "d.png"}) put(name);
  text("notes.txt");
  damage("b.png");
  text("list.csv", "file,label\na.png,x\nb.png,x\nmore/c.png,y\n");
  const auto data = prepare({{"csv", place("list.csv")}, {"skip_unreadable", "true"}});
  EXPECT_EQ(data->account().used, 2);
  EXPECT_EQ(all_of(data->account()), files_there());
  EXPECT_EQ(reasons(*data),
            (Counts{{"unreadable", 1}, {"pictures that the table does not name", 1}, {".csv", 1}, {".txt", 1}}));
}

TEST_F(OddFolder, HasADigestOfNamesSizesAndLabels) {
  put("cat/a.png");
  put("dog/a.png");
  const auto digest = [&] { return start()->account().digest; };
  const auto first = digest();
  EXPECT_EQ(first.size(), 64U);
  fs::rename(root_, folder_ / "moved");
  fs::copy(folder_ / "moved", root_, fs::copy_options::recursive);
  EXPECT_EQ(digest(), first);
  fs::rename(place("cat/a.png"), place("cat/b.png"));
  EXPECT_NE(digest(), first);
}

}  // namespace
}  // namespace ddprun::test
