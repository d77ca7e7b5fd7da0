// SPDX-License-Identifier: MIT
#include "runs/json_lines.h"
#include "runs/run_files.h"

#include <ddprun/error.h>

#include <cmath>
#include <vector>

namespace ddprun {
namespace {

class LineReaders : public RunFiles {};

TEST_F(LineReaders, GivesEachLineWithItsPlaceAndWhetherItEnded) {
  LineReader reader(write("lines", "one\n\nthree"));
  std::vector<std::string> lines;
  std::vector<uint64_t> offsets;
  while (reader.next()) {
    lines.emplace_back(reader.line());
    offsets.push_back(reader.offset());
    EXPECT_EQ(reader.ended(), reader.number() < 3);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 4, 5}));
}

TEST_F(LineReaders, ReadsLinesLongerThanItsBuffer) {
  const std::string longer(3'000'000, 'x');
  LineReader reader(write("lines", longer + "\nshort\n"));
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.line(), longer);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.line(), "short");
  EXPECT_FALSE(reader.next());
}

TEST_F(LineReaders, PassesOverALineThatNoMemoryShouldHold) {
  const auto file = write("lines", "first\n" + std::string(LineReader::kMostLineBytes + 5'000'000, 'x') + "\nlast\n");
  LineReader reader(file);
  ASSERT_TRUE(reader.next());
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.too_long());
  EXPECT_EQ(reader.line(), "");
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.line(), "last");
  LineReader again(file, reader.offset());
  ASSERT_TRUE(again.next());
  EXPECT_EQ(again.line(), "last");
}

TEST_F(LineReaders, RefuseALineThatHasNoEnd) {
  const auto file = write("lines", "first\n");
  std::filesystem::resize_file(file, uint64_t{1} << 40);  // a hole, which takes no room
  LineReader reader(file);
  ASSERT_TRUE(reader.next());
  EXPECT_THROW(reader.next(), UserError);
}

TEST_F(LineReaders, OfAMissingFileAreNotOpenAndHaveNoLine) {
  LineReader reader(folder_ / "nowhere");
  EXPECT_FALSE(reader.open());
  EXPECT_FALSE(reader.next());
}

TEST(FlatObject, TakesWhatIsNotNested) {
  const auto object =
      FlatObject::parse(R"({"split":"val","step":7,"loss":null,"deep":{"step":9},"list":[1,{"step":8}],"ok":true})");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->text("split"), "val");
  EXPECT_EQ(object->integer("step"), 7);
  EXPECT_TRUE(std::isnan(object->number("loss")));
  EXPECT_EQ(object->numbers.size(), 2U);
  EXPECT_EQ(object->number("missing", -1), -1);
}

TEST(FlatObject, IsNothingForHalfAnObjectOrNone) {
  for (const char* text : {R"({"step":7)", R"({"step":)", "", "7", "[1]", "[[1],{\"a\":2}]", "\"text\"", "null", "{}x"})
    EXPECT_FALSE(FlatObject::parse(text)) << text;
}

TEST(FlatObject, KeepsNumbersThatNoIntegerHoldsFromOverflowing) {
  const auto object = FlatObject::parse(R"({"step":1e300,"epoch":null})");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->integer("step", 3), 3);
  EXPECT_EQ(object->integer("epoch", 4), 4);
}

}  // namespace
}  // namespace ddprun
