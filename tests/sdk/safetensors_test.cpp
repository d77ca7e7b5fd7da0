// SPDX-License-Identifier: MIT
// What is written, and what is said of files that are none. Which files are none, and what is in the others, is
// compared with the format's own package in tests/differential/safetensors_test.py.
#include "support/error_of.h"
#include "support/every_dtype.h"
#include "support/same_tensors.h"
#include "support/temporary_folder.h"
#include "support/written_files.h"

#include <ddprun/digest.h>
#include <ddprun/safetensors.h>

#include <ATen/Functions.h>

#include <cmath>
#include <cstring>

namespace ddprun {
namespace {

std::string with_header(const std::string& header, const std::string& data) {
  return test::little_endian(header.size(), 8) + header + data;
}

class Safetensors : public FolderTest {
 protected:
  // Writes the bytes and returns what reading them says.
  std::string problem_of(const std::string& bytes) const {
    write(folder_ / "bad.safetensors", bytes);
    const auto problem = error_of([&] { read_safetensors(folder_ / "bad.safetensors"); });
    EXPECT_TRUE(says(problem, "bad.safetensors"));
    EXPECT_LT(problem.size(), 500U + folder_.string().size()) << "what is nested or long is not repeated";
    return problem;
  }

  TensorDict round_trip(const TensorDict& tensors) const {
    write_safetensors(file_, tensors);
    return read_safetensors(file_);
  }

  const std::filesystem::path file_ = folder_ / "m.safetensors";
};

TEST_F(Safetensors, KeepsEveryDtypeShapeNameAndBit) {
  auto tensors = tensors_of_every_dtype();
  tensors["a \"b\"\\\n\u00e4"] = at::ones({1});
  tensors[""] = at::zeros({1});
  EXPECT_TRUE(same(tensors, round_trip(tensors)));
  EXPECT_TRUE(round_trip({}).empty());
  const auto special = at::tensor({INFINITY, -INFINITY, -0.0F, NAN, 1e-45F}, at::kFloat);
  const auto back = round_trip({{"x", special}}).at("x");
  EXPECT_EQ(std::memcmp(special.const_data_ptr(), back.const_data_ptr(), special.nbytes()), 0);
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
  EXPECT_LT(std::filesystem::file_size(file_), 1500U);
}

TEST_F(Safetensors, PlacesTensorsAlignedAndReturnsTheDigestOfWhatItWrote) {
  const TensorDict tensors = {{"a", at::ones({3}, at::kBool)},
                              {"b", at::ones({3}, at::kHalf)},
                              {"c", at::ones({1}, at::kDouble)},
                              {"d", at::ones({3}, at::kFloat)},
                              {"a2", at::ones({1}, at::kFloat)}};
  const auto digest = write_safetensors(file_, tensors);
  EXPECT_EQ(digest, digest_of(file_));
  EXPECT_TRUE(says(read(file_), R"({"__metadata__":{"format":"pt"})"));
  std::string places;
  for (const auto& entry : read_safetensors_header(file_)) {
    EXPECT_EQ(entry.begin % at::elementSize(*entry.type), 0U) << entry.name;
    places += entry.name + " ";
  }
  EXPECT_EQ(places, "c a2 d b a ");
}

TEST_F(Safetensors, LayoutIsThatOfTheFileWhateverTheOrderOfTheTensors) {
  const auto tensors = tensors_of_every_dtype();
  write_safetensors(file_, tensors);
  std::vector<SafetensorsEntry> forms;
  for (const auto& [name, tensor] : tensors) forms.insert(forms.begin(), safetensors_form(name, tensor));
  const auto layout = safetensors_layout(forms);
  const auto bytes = read(file_);
  EXPECT_EQ(layout.size(), bytes.size());
  EXPECT_TRUE(bytes.starts_with(layout.beginning));
  const auto entries = read_safetensors_header(file_);
  ASSERT_EQ(layout.entries.size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(layout.entries[i].name, entries[i].name);
    EXPECT_EQ(layout.entries[i].begin, entries[i].begin);
    EXPECT_EQ(layout.entries[i].end, entries[i].end);
  }
  const auto form = safetensors_form("a", at::ones({2}));
  EXPECT_THROW(safetensors_layout({form, form}), std::invalid_argument);
  auto large = form;
  large.shape = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_THROW(safetensors_layout({large}), std::invalid_argument);
}

TEST_F(Safetensors, LeavesNoFileOfWhatItCannotHold) {
  for (const auto& [name, tensor] : {std::pair{std::string("odd.one"), at::Tensor()},
                                     {"odd.one", at::eye(3).to_sparse()},
                                     {"odd.one", at::ones({2}, at::kComplexFloat)},
                                     {"__metadata__", at::ones({1})},
                                     {std::string(5000, 'x'), at::ones({1})}})
    EXPECT_THROW(write_safetensors(file_, {{name, tensor}}), std::invalid_argument) << name;
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_TRUE(says(error_of([&] { write_safetensors(folder_ / "no/such/folder/m", {}); }),
                   "no/such/folder/m ... No such file or directory"));
}

std::string one(const std::string& info) { return "{\"x\":" + info + "}"; }

std::string two(const std::string& first, const std::string& second, const std::string& name = "y") {
  const auto entry = [](const std::string& offsets) {
    return R"({"dtype":"U8","shape":[2],"data_offsets":)" + offsets + "}";
  };
  return "{\"x\":" + entry(first) + ",\"" + name + "\":" + entry(second) + "}";
}

// A flaw of a header, over 4 bytes of data.
TEST_F(Safetensors, NamesEveryKindOfFlaw) {
  expect_refused([&](const std::string& header) { return problem_of(with_header(header, "abcd")); },
                 {{"{nonsense", "header"},
                  {"[1,2]", "expected a JSON object, found a list"},
                  {two("[0,2]", "[2,4]", "x"), "twice"},
                  {two("[0,2]", "[3,5]"), "a gap"},
                  {two("[0,2]", "[1,3]"), "an overlap"},
                  {one(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})"), "has 4"},
                  {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), "need 8 bytes"},
                  {one(R"({"dtype":"U8","shape":[0],"data_offsets":[4,0]})"), "data_offsets"},
                  {one(R"({"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]})"), "F8_E4M3"},
                  {one(R"({"kind":"U8","shape":[4],"data_offsets":[0,4]})"), "dtype"},
                  {one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"scale":2})"), "\"x\""},
                  {one("17"), "\"x\""},
                  {one(R"({"dtype":"U8","shape":4,"data_offsets":[0,4]})"), "shape"},
                  {one(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"), "-4"},
                  {one(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"), "4.0"},
                  {one(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,4]})"), "too large"},
                  {one(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4]})"), "out of range"},
                  {one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,2,4]})"), "[begin, end]"},
                  {one(R"({"dtype":"U8","shape":[4],"data_offsets":["0","4"]})"), "found a text"},
                  {R"({"__metadata__":{"format":1}})", "__metadata__"},
                  {one(R"({"dtype":"BOOL","shape":[4],"data_offsets":[0,4]})"), "neither 0 nor 1"},
                  {one(R"({"dtype":"U8","data_offsets":[0,4],"shape":)" + std::string(1 << 18, '[') +
                       std::string(1 << 18, ']') + "}"),
                   "nests deeper than 8"},
                  // Patterns are matched with names by recursion, a level for each character.
                  {two("[0,2]", "[2,4]", std::string(400'000, 'x')), "a tensor's name has 400000 bytes"}});
  expect_refused([&](const std::string& bytes) { return problem_of(bytes); },
                 {{std::string(7, '\0'), "fewer than 8"},
                  {std::string(8, '\xff'), "100 MB"},
                  {std::string("\x10\0\0\0\0\0\0\0{}", 10), "16 bytes"}});
  EXPECT_TRUE(says(error_of([&] { read_safetensors(folder_ / "missing"); }), "No such file"));
  EXPECT_TRUE(says(error_of([&] { read_safetensors(folder_); }), "Is a directory"));
}

TEST_F(Safetensors, NeverCrashesOnAFlippedBit) {
  write_safetensors(file_, {{"weight", at::arange(12, at::kFloat).view({3, 4})}, {"count", at::scalar_tensor(7)}});
  const auto bytes = read(file_);
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 3) {
    auto flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write(file_, flipped);
    const auto problem = error_of<std::exception>([&] { read_safetensors(file_); });
    ASSERT_TRUE(problem.empty() || says(problem, "not a valid safetensors file")) << "bit " << bit;
  }
}

TEST_F(Safetensors, HeaderSaysWhereTheTensorsLieOfUnknownTypesToo) {
  const std::string header =
      R"({"a":{"dtype":"I16","shape":[1,2],"data_offsets":[3,7]},"b":{"dtype":"F8","shape":[3],"data_offsets":[0,3]}})";
  write(file_, with_header(header, "bbbaaaa"));
  const auto entries = read_safetensors_header(file_);
  EXPECT_EQ(entries.at(0).name, "b");
  EXPECT_EQ(entries.at(0).type, std::nullopt);
  EXPECT_EQ(entries.at(1).type, at::kShort);
  EXPECT_EQ(read(file_).substr(entries.at(1).begin, entries.at(1).end - entries.at(1).begin), "aaaa");
}

}  // namespace
}  // namespace ddprun
