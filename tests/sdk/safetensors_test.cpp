// SPDX-License-Identifier: MIT
#include "support/error_of.h"
#include "support/every_dtype.h"
#include "support/same_tensors.h"
#include "support/temporary_folder.h"

#include <ddprun/digest.h>
#include <ddprun/safetensors.h>

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string header_in(const std::string& bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return bytes.substr(8, length);
}

std::string with_header(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

// {"t0": ..., "t1": ...}, one byte each.
std::string header_of(int tensors) {
  std::string text = "{";
  for (int i = 0; i < tensors; ++i) {
    text += (i ? ",\"t" : "\"t") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
            std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  return text + "}";
}

class Safetensors : public FolderTest {
 protected:
  std::filesystem::path file(const std::string& name) const { return folder_ / name; }

  // Writes the bytes and returns what reading them says.
  std::string problem_of(const std::string& bytes) const {
    write(file("bad.safetensors"), bytes);
    const auto problem = error_of([&] { read_safetensors(file("bad.safetensors")); });
    EXPECT_THAT(problem, HasSubstr("bad.safetensors"));
    return problem;
  }
  std::string problem_of(const std::string& header, const std::string& data) const {
    return problem_of(with_header(header, data));
  }

  TensorDict round_trip(const TensorDict& tensors) const {
    write_safetensors(file("m.safetensors"), tensors);
    return read_safetensors(file("m.safetensors"));
  }
};

TEST_F(Safetensors, KeepsEveryDtypeAndShape) {
  const auto tensors = tensors_of_every_dtype();
  EXPECT_TRUE(same(tensors, round_trip(tensors)));
}

TEST_F(Safetensors, KeepsTheBitsOfSpecialNumbers) {
  const auto special = at::tensor({INFINITY, -INFINITY, -0.0F, NAN, 1e-45F}, at::kFloat);
  const auto back = round_trip({{"x", special}}).at("x");
  EXPECT_EQ(std::memcmp(special.const_data_ptr(), back.const_data_ptr(), special.nbytes()), 0);
}

TEST_F(Safetensors, HoldsNoTensors) { EXPECT_TRUE(round_trip({}).empty()); }

TEST_F(Safetensors, KeepsNamesThatNeedEscapes) {
  const TensorDict tensors = {{"a \"b\"\\\n\u00e4", at::ones({1})}, {"", at::zeros({1})}};
  EXPECT_TRUE(same(tensors, round_trip(tensors)));
}

TEST_F(Safetensors, WritesViewsAsWhatTheyShow) {
  const auto base = at::arange(1000, at::kFloat);
  const TensorDict tensors = {
      {"slice", base.slice(0, 10, 12)},
      {"every_third", base.slice(0, 0, 30, 3)},
      {"transposed", base.slice(0, 0, 6).view({2, 3}).t()},
      {"expanded", base.slice(0, 5, 6).expand({4})},
      {"channels_last", base.slice(0, 0, 120).view({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"with_history", at::ones({3}).requires_grad_() * 2}};
  EXPECT_TRUE(same(tensors, round_trip(tensors)));
  EXPECT_LT(std::filesystem::file_size(file("m.safetensors")), 1500U);
}

TEST_F(Safetensors, PlacesTensorsAligned) {
  const TensorDict tensors = {{"a", at::ones({3}, at::kBool)},
                              {"b", at::ones({3}, at::kHalf)},
                              {"c", at::ones({1}, at::kDouble)},
                              {"d", at::ones({3}, at::kFloat)},
                              {"a2", at::ones({1}, at::kFloat)}};
  write_safetensors(file("m.safetensors"), tensors);
  const auto header = header_in(read(file("m.safetensors")));
  EXPECT_EQ(header.size() % 8, 0U);
  EXPECT_EQ(header.front(), '{');
  EXPECT_THAT(header, AllOf(HasSubstr(R"("__metadata__":{"format":"pt"})"), HasSubstr(R"("c":{"data_offsets":[0,8])"),
                            HasSubstr(R"("a2":{"data_offsets":[8,12])"), HasSubstr(R"("d":{"data_offsets":[12,24])"),
                            HasSubstr(R"("b":{"data_offsets":[24,30])"), HasSubstr(R"("a":{"data_offsets":[30,33])")));
}

TEST_F(Safetensors, LayoutIsThatOfTheFileWhateverTheOrderOfTheTensors) {
  const auto tensors = tensors_of_every_dtype();
  write_safetensors(file("a.safetensors"), tensors);
  std::vector<SafetensorsEntry> forms;
  for (const auto& [name, tensor] : tensors) forms.insert(forms.begin(), safetensors_form(name, tensor));
  const auto layout = safetensors_layout(forms);
  const auto bytes = read(file("a.safetensors"));
  EXPECT_EQ(layout.size(), bytes.size());
  EXPECT_TRUE(bytes.starts_with(layout.beginning));
  const auto entries = read_safetensors_header(file("a.safetensors"));
  ASSERT_EQ(layout.entries.size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(layout.entries[i].name, entries[i].name);
    EXPECT_EQ(layout.entries[i].begin, entries[i].begin);
    EXPECT_EQ(layout.entries[i].end, entries[i].end);
  }
}

TEST_F(Safetensors, LayoutRefusesTwoTensorsOfOneNameAndOneThatIsTooLarge) {
  const auto form = safetensors_form("a", at::ones({2}));
  EXPECT_THROW(safetensors_layout({form, form}), std::invalid_argument);
  auto large = form;
  large.shape = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_THROW(safetensors_layout({large}), std::invalid_argument);
}

TEST_F(Safetensors, ReturnsTheDigestOfWhatItWrote) {
  const auto digest = write_safetensors(file("m"), {{"x", at::ones({100})}});
  EXPECT_EQ(digest, digest_of(file("m")));
}

TEST_F(Safetensors, RefusesTensorsThatTheFormatCannotHold) {
  const auto save = [&](const at::Tensor& tensor) { write_safetensors(file("m"), {{"odd.one", tensor}}); };
  EXPECT_THROW(save(at::Tensor()), std::invalid_argument);
  EXPECT_THROW(save(at::eye(3).to_sparse()), std::invalid_argument);
  EXPECT_THROW(save(at::ones({2}, at::kComplexFloat)), std::invalid_argument);
  EXPECT_THROW(write_safetensors(file("m"), {{"__metadata__", at::ones({1})}}), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(file("m")));
}

TEST_F(Safetensors, LeavesNoFileWhereItFails) {
  EXPECT_THAT(error_of([&] { write_safetensors(file("no/such/folder/m"), {}); }),
              AllOf(HasSubstr("no/such/folder/m"), HasSubstr("No such file or directory")));
}

TEST_F(Safetensors, SaysWhatIsNoFile) {
  EXPECT_THAT(error_of([&] { read_safetensors(file("missing")); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { read_safetensors(folder_); }), HasSubstr("Is a directory"));
}

// A flaw of a header, over 4 bytes of data, and what must be said of it.
struct Flaw {
  const char* name;
  std::string header;
  std::string said;
};

std::string one(const std::string& info) { return "{\"x\":" + info + "}"; }

std::string two(const std::string& first, const std::string& second) {
  const auto entry = [](const std::string& offsets) {
    return R"({"dtype":"U8","shape":[2],"data_offsets":)" + offsets + "}";
  };
  return "{\"x\":" + entry(first) + ",\"y\":" + entry(second) + "}";
}

const std::vector<Flaw> kFlaws = {
    Flaw{"NotJson", "{nonsense", "header"},
    Flaw{"NotUtf8", "{\"\xff\":1}", "header"},
    Flaw{"Empty", "", "header"},
    Flaw{"NoObject", "[1,2]", "expected a JSON object, found a list"},
    Flaw{"TrailingText", "{} x", "header"},
    Flaw{"DuplicateKey", two("[0,2]", "[2,4]").replace(two("[0,2]", "[2,4]").find("\"y\""), 3, "\"x\""), "twice"},
    Flaw{"Hole", two("[0,2]", "[3,5]"), "a gap"},
    Flaw{"Overlap", two("[0,2]", "[1,3]"), "an overlap"},
    Flaw{"SameBytesTwice", two("[0,2]", "[0,2]"), "an overlap"},
    Flaw{"HoleAtTheBegin", one(R"({"dtype":"U8","shape":[2],"data_offsets":[2,4]})"), "a gap"},
    Flaw{"TooFewBytesDescribed", one(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})"), "has 4"},
    Flaw{"MoreBytesThanThereAre", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), "has 4"},
    Flaw{"ShapeAgainstOffsets", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), "need 8 bytes"},
    Flaw{"BackwardOffsets", one(R"({"dtype":"U8","shape":[0],"data_offsets":[4,0]})"), "data_offsets"},
    Flaw{"UnknownDtype", one(R"({"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]})"), "F8_E4M3"},
    Flaw{"DtypeNoText", one(R"({"dtype":7,"shape":[4],"data_offsets":[0,4]})"), "\"x\""},
    Flaw{"NoDtype", one(R"({"kind":"U8","shape":[4],"data_offsets":[0,4]})"), "dtype"},
    Flaw{"MissingField", one(R"({"dtype":"U8","shape":[4]})"), "data_offsets"},
    Flaw{"ExtraField", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"scale":2})"), "\"x\""},
    Flaw{"EntryNoObject", one("17"), "\"x\""},
    Flaw{"ShapeNoList", one(R"({"dtype":"U8","shape":4,"data_offsets":[0,4]})"), "shape"},
    Flaw{"NegativeExtent", one(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"), "-4"},
    Flaw{"FractionalExtent", one(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"), "4.0"},
    Flaw{"ShapeOverflows", one(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,4]})"), "too large"},
    Flaw{"EmptyShapeOverflows", one(R"({"dtype":"U8","shape":[0,9223372036854775807,9],"data_offsets":[0,4]})"),
         "too large"},
    Flaw{"ExtentBeyondInt64", one(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4]})"),
         "out of range"},
    Flaw{"OffsetsOfThree", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,2,4]})"), "[begin, end]"},
    Flaw{"NegativeOffset", one(R"({"dtype":"U8","shape":[4],"data_offsets":[-4,0]})"), "-4"},
    Flaw{"OffsetsNoNumbers", one(R"({"dtype":"U8","shape":[4],"data_offsets":["0","4"]})"), "found a text"},
    Flaw{"MetadataNoTexts", R"({"__metadata__":{"format":1}})", "__metadata__"},
    Flaw{"MetadataNoObject", R"({"__metadata__":"pt"})", "__metadata__"},
    Flaw{"BoolOfNeither", one(R"({"dtype":"BOOL","shape":[4],"data_offsets":[0,4]})"), "neither 0 nor 1"}};

TEST_F(Safetensors, NamesEveryFlawOfAHeader) {
  for (const auto& flaw : kFlaws) {
    SCOPED_TRACE(flaw.name);
    EXPECT_THAT(problem_of(flaw.header, "abcd"), HasSubstr(flaw.said));
  }
}

TEST_F(Safetensors, RefusesLyingLengths) {
  EXPECT_THAT(problem_of(std::string()), HasSubstr("fewer than 8"));
  EXPECT_THAT(problem_of(std::string(7, '\0')), HasSubstr("fewer than 8"));
  EXPECT_THAT(problem_of(std::string(8, '\xff')), HasSubstr("100 MB"));
  EXPECT_THAT(problem_of(std::string("\x10\0\0\0\0\0\0\0{}", 10)), HasSubstr("16 bytes"));
}

TEST_F(Safetensors, SurvivesDeepNesting) {
  EXPECT_THAT(problem_of(std::string(1 << 20, '['), ""), HasSubstr("header"));
  const auto closed = std::string(1 << 18, '[') + std::string(1 << 18, ']');
  const auto header = one(R"({"dtype":"U8","data_offsets":[0,4],"shape":)" + closed + "}");
  const auto problem = problem_of(header, "abcd");
  EXPECT_THAT(problem, HasSubstr("nests deeper than 8"));
  EXPECT_LT(problem.size(), 300U) << "what is nested is not repeated";
}

const TensorDict kSmall = {{"weight", at::arange(12, at::kFloat).view({3, 4})},
                           {"count", at::scalar_tensor(7, at::kLong)}};

// Patterns are matched with names by recursion, a level for each character.
TEST_F(Safetensors, RefusesNamesThatAreNone) {
  const auto named = [](size_t bytes) {
    return R"({")" + std::string(bytes, 'x') + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  };
  EXPECT_EQ(problem_of(named(400'000), "x").size(), problem_of(named(500'000), "x").size());
  EXPECT_THAT(problem_of(named(400'000), "x"), HasSubstr("a tensor's name has 400000 bytes"));
  EXPECT_THROW(write_safetensors(file("t"), {{std::string(5000, 'x'), at::ones({1})}}), std::invalid_argument);
}

TEST_F(Safetensors, RefusesEveryTruncation) {
  write_safetensors(file("m"), kSmall);
  const auto bytes = read(file("m"));
  for (size_t size = 0; size < bytes.size(); size += 3) problem_of(bytes.substr(0, size));
}

TEST_F(Safetensors, NeverCrashesOnAFlippedBit) {
  write_safetensors(file("m"), kSmall);
  const auto bytes = read(file("m"));
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 3) {
    auto flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write(file("f"), flipped);
    try {
      read_safetensors(file("f"));
    } catch (const std::exception& error) {
      ASSERT_THAT(error.what(), HasSubstr("not a valid safetensors file")) << "bit " << bit;
    }
  }
}

TEST_F(Safetensors, ReadsWhatOtherWritersLayOutDifferently) {
  // No padding, leading metadata absent, tensors in another order, unaligned.
  const std::string header =
      R"({"b":{"shape":[],"dtype":"U8","data_offsets":[0,1]},"a":{"dtype":"I16","shape":[1],"data_offsets":[1,3]}})";
  write(file("m"), with_header(header, std::string("\x05\x01\x02", 3)));
  const auto tensors = read_safetensors(file("m"));
  EXPECT_EQ(tensors.at("b").item<int>(), 5);
  EXPECT_EQ(tensors.at("a")[0].item<int>(), 0x0201);
}

TEST_F(Safetensors, HeaderTellsWhereTheTensorsLie) {
  const std::string header =
      R"({"a":{"dtype":"I16","shape":[1,2],"data_offsets":[3,7]},"b":{"dtype":"F8","shape":[3],"data_offsets":[0,3]}})";
  write(file("m"), with_header(header, "bbbaaaa"));
  const auto entries = read_safetensors_header(file("m"));
  EXPECT_EQ(entries.at(0).name, "b");
  EXPECT_EQ(entries.at(0).type, std::nullopt);
  EXPECT_EQ(entries.at(1).type, at::kShort);
  EXPECT_EQ(read(file("m")).substr(entries.at(1).begin, entries.at(1).end - entries.at(1).begin), "aaaa");
}

// Time that grew with the square of their number would be an hour.
TEST_F(Safetensors, TakesHundredsOfThousandsOfTensors) {
  constexpr int kTensors = 400'000;
  write(file("m"), with_header(header_of(kTensors), std::string(kTensors, 'x')));
  EXPECT_EQ(read_safetensors_header(file("m")).size(), size_t{kTensors});
}

}  // namespace
}  // namespace ddprun
