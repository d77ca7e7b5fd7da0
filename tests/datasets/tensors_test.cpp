// SPDX-License-Identifier: MIT
#include "array_files.h"
#include "idx_writer.h"
#include "plugin_under_test.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Tensors : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& bytes) {
    return write_file(folder_ / name, bytes).string();
  }

  static std::shared_ptr<Dataset> start(const Settings& settings) {
    auto data = load_dataset(TENSORS_PLUGIN, settings);
    data->start();
    return data;
  }

  // The plugin with train: [input.npy, target.npy] of these contents.
  std::shared_ptr<Dataset> start_pair(const std::string& input, const std::string& target) {
    auto files = Value::list();
    files.items() = {Value::scalar(put("input.npy", input)), Value::scalar(put("target.npy", target))};
    auto values = Value::map();
    values.set("train", files);
    auto data = load_dataset(TENSORS_PLUGIN, Options(std::move(values), "dataset"));
    data->start();
    return data;
  }

  static std::string problem(const Settings& settings) {
    return message_of<UserError>([&] { start(settings); });
  }

  TestFolder folder_;
};

TEST_F(Tensors, GivesRowsInTheOrderAsked) {
  const auto data = start({{"train", put("a.safetensors", sample_file(6))}});
  const auto batch = data->get(Split::kTrain, std::vector<int64_t>{4, 0, 5});
  EXPECT_TRUE(batch.input.equal(at::tensor({12., 13., 14., 0., 1., 2., 15., 16., 17.}, at::kFloat).view({3, 3})));
  EXPECT_TRUE(batch.target.equal(at::tensor({0, 0, 1}, at::kLong)));
  EXPECT_TRUE(batch.index.equal(at::tensor({4, 0, 5}, at::kLong)));
  EXPECT_EQ(data->size(Split::kTrain), 6);
  EXPECT_EQ(data->size(Split::kVal), 0);
  EXPECT_EQ(data->spec().sample_shape, (std::vector<int64_t>{3}));
  EXPECT_EQ(data->spec().classes, 4);
  EXPECT_THROW(data->get(Split::kTrain, std::vector<int64_t>{6}), std::out_of_range);
}

TEST_F(Tensors, TensorsThatNobodyNamesAreCounted) {
  const auto account = [&](const std::string& target) {
    return start({{"train", put("a.safetensors", safetensors_file("{" + entry("input", "F32", "[2,1]", 0, 8) + "," +
                                                                      entry("more", "F32", "[1]", 8, 12) + "," +
                                                                      entry("target", "U8", "[2]", 12, 14) + "}",
                                                                  bytes_of<float>({1, 2, 3}) + target))}})
        ->account();
  };
  const auto found = account(std::string("\0\1", 2));
  EXPECT_EQ(found.used, 2);
  ASSERT_EQ(found.left_alone.size(), 1U);
  EXPECT_THAT(found.left_alone[0].examples, ElementsAre(HasSubstr("a.safetensors: more")));
  EXPECT_EQ(found.digest, account(std::string("\0\1", 2)).digest);
  EXPECT_NE(found.digest, account(std::string("\1\0", 2)).digest);
}

TEST_F(Tensors, ScalesAndNormalizesTheInputs) {
  const auto data =
      start({{"train", put("a.safetensors", sample_file(2))}, {"scale", "0.5"}, {"mean", "3"}, {"std", "2"}});
  const auto input = data->get(Split::kTrain, std::vector<int64_t>{1}).input;
  EXPECT_TRUE(input.equal(at::tensor({-0.75, -0.5, -0.25}, at::kFloat).view({1, 3})));
}

TEST_F(Tensors, TakesFloatTargetsAsValues) {
  const auto data = start_pair(npy_file("|u1", "(2,)", "\x07\x08"),
                               npy_file("<f8", "(2, 2)", bytes_of<double>({0.5, 1.5, 2.5, 3.5})));
  const auto batch = data->get(Split::kTrain, std::vector<int64_t>{1});
  EXPECT_TRUE(batch.target.equal(at::tensor({2.5, 3.5}, at::kFloat).view({1, 2})));
  EXPECT_TRUE(batch.input.equal(at::tensor({8.}, at::kFloat).view({1, 1})));
  EXPECT_EQ(data->spec().classes, 0);
}

TEST_F(Tensors, RefusesNumbersBeyondFloat32ButNotThoseThatAreInfinite) {
  const auto infinity = std::numeric_limits<double>::infinity();
  const auto data = start_pair(npy_file("<f8", "(3,)", bytes_of<double>({1, 1e300, infinity})),
                               npy_file("|u1", "(3,)", std::string("\0\1\0", 3)));
  EXPECT_THAT(message_of<UserError>([&] { data->get(Split::kTrain, std::vector<int64_t>{0, 1}); }),
              HasSubstr("input.npy: row 1 has 1e+300, which is beyond float32"));
  EXPECT_EQ(data->get(Split::kTrain, std::vector<int64_t>{2}).input.item<double>(), infinity);
}

TEST_F(Tensors, CountsTheClassesOverAllSplits) {
  const auto train = put("train.safetensors", sample_file(8, 3, 4)),
             test = put("test.safetensors", sample_file(8, 3, 7));
  EXPECT_EQ(start({{"train", train}, {"test", test}})->spec().classes, 7);
  EXPECT_EQ(start({{"train", train}, {"classes", "10"}})->spec().classes, 10);
  EXPECT_THAT(problem({{"train", train}, {"test", test}, {"classes", "5"}}),
              AllOf(HasSubstr("test.safetensors: tensor \"target\": label 5 of sample 5, expected 0 to 4")));
}

TEST_F(Tensors, HoldsOutTheSameSamplesForASeed) {
  const auto file = put("a.safetensors", sample_file(100, 1));
  const auto held_out = [&](const std::string& seed) {
    const auto data = start({{"train", file}, {"val_fraction", "0.2"}, {"seed", seed}});
    EXPECT_EQ(data->size(Split::kTrain), 80);
    EXPECT_EQ(data->size(Split::kVal), 20);
    std::multiset<float> all;
    std::vector<float> val;
    for (int64_t i = 0; i < 80; ++i) all.insert(data->get(Split::kTrain, std::vector{i}).input.item<float>());
    for (int64_t i = 0; i < 20; ++i) val.push_back(data->get(Split::kVal, std::vector{i}).input.item<float>());
    all.insert(val.begin(), val.end());
    EXPECT_EQ(all.size(), 100U);
    EXPECT_EQ(*all.rbegin(), 99);
    EXPECT_EQ(std::set<float>(all.begin(), all.end()).size(), 100U);
    return val;
  };
  EXPECT_EQ(held_out("1"), held_out("1"));
  EXPECT_NE(held_out("1"), held_out("2"));
}

TEST_F(Tensors, HoldsOutEachSampleInOneFold) {
  const auto file = put("a.safetensors", sample_file(100, 1));
  std::set<float> all;
  for (const std::string fold : {"0", "1", "2"}) {
    const auto data = start({{"train", file}, {"folds", "3"}, {"fold", fold}});
    EXPECT_EQ(data->size(Split::kTrain) + data->size(Split::kVal), 100);
    for (int64_t i = 0; i < data->size(Split::kVal); ++i)
      EXPECT_TRUE(all.insert(data->get(Split::kVal, std::vector{i}).input.item<float>()).second);
  }
  EXPECT_EQ(all.size(), 100U);
  const auto both = [&] { start({{"train", file}, {"val", file}, {"folds", "3"}}); };
  EXPECT_THAT(message_of<std::runtime_error>(both), HasSubstr("dataset.folds: there is a val file"));
}

TEST_F(Tensors, RefusesOptionsWithoutEffect) {
  const auto refused = [&](const Settings& settings) {
    return message_of<std::runtime_error>([&] { start(settings); });
  };
  const auto file = put("a.safetensors", sample_file(3, 2));
  EXPECT_THAT(refused({{"train", file}, {"seed", "2"}}), HasSubstr("seed: has no effect: neither val_fraction nor"));
  const auto values = put("b.safetensors", safetensors_file("{" + entry("input", "F32", "[1,1]", 0, 4) + "," +
                                                                entry("target", "F32", "[1]", 4, 8) + "}",
                                                            std::string(8, '\0')));
  EXPECT_THAT(problem({{"train", values}, {"classes", "2"}}), HasSubstr("dataset.classes is for targets that are"));
}

TEST_F(Tensors, RefusesTooFewSamplesToHoldOut) {
  const auto file = put("a.safetensors", sample_file(3));
  EXPECT_THAT(problem({{"train", file}, {"val_fraction", "0.1"}}), HasSubstr("holds 3 samples: too few"));
  const auto both = [&] { start({{"train", file}, {"val", file}, {"val_fraction", "0.1"}}); };
  EXPECT_THAT(message_of<std::runtime_error>(both), HasSubstr("dataset.val_fraction: there is a val file"));
}

TEST_F(Tensors, FindsMistakesBeforeAnyWorkerStarts) {
  const auto data = load_dataset(TENSORS_PLUGIN, {{"train", folder_ / "absent.safetensors"}});
  EXPECT_THAT(message_of<UserError>([&] { data->prepare({}); }),
              HasSubstr("absent.safetensors: cannot be opened: No such file"));
}

TEST_F(Tensors, NamesFilesThatAreNone) {
  EXPECT_THAT(problem({{"train", folder_.path()}}), HasSubstr("is not a file"));
  EXPECT_THAT(problem({{"train", put("empty.safetensors", "")}}), HasSubstr("empty.safetensors: the file is empty"));
  EXPECT_THAT(problem({{"train", put("a.npy", npy_file("|u1", "(1,)", "x"))}}), HasSubstr("[input.npy, target.npy]"));
  EXPECT_THAT(problem({{"train", put("iris.csv", "1.5,2.5,setosa\n")}}), HasSubstr("is a table of text"));
}

TEST_F(Tensors, TakesDefaultsThatAreWritten) {
  const auto data =
      start({{"train", put("a.safetensors", sample_file(6))}, {"val", "[]"}, {"test", "[]"}, {"fold", "0"}});
  EXPECT_EQ(data->size(Split::kVal), 0);
}

TEST_F(Tensors, RequiresFilesOfTrain) {
  EXPECT_THAT(message_of<std::runtime_error>([] { load_dataset(TENSORS_PLUGIN, Settings{}); }),
              HasSubstr("dataset.train: missing; it has no default"));
  EXPECT_THAT(message_of<std::runtime_error>([] { load_dataset(TENSORS_PLUGIN, {{"train", ""}}); }),
              HasSubstr("expected a .safetensors file or [input.npy, target.npy]"));
}

TEST_F(Tensors, NamesArraysThatDoNotFit) {
  const auto pair = [&](const std::string& input, const std::string& target) {
    return message_of<UserError>([&] { start_pair(input, target); });
  };
  const auto two = npy_file("|u1", "(2,)", "ab"), none = npy_file("|u1", "(0, 3)", "");
  EXPECT_THAT(pair(two, npy_file("|u1", "(3,)", "abc")),
              AllOf(HasSubstr("target.npy: has 3 rows, but "), HasSubstr("input.npy has 2")));
  EXPECT_THAT(pair(none, two), HasSubstr("input.npy: is [0, 3] uint8: no samples"));
  EXPECT_THAT(pair(npy_file("|u1", "(2, 0)", ""), two), HasSubstr("samples without a value"));
  EXPECT_THAT(pair(npy_file("|u1", "()", "a"), two), HasSubstr("holds a single number"));
  EXPECT_THAT(pair(two, npy_file("|u1", "(2, 2)", "abcd")), HasSubstr("is [2, 2] uint8, expected one class"));
  EXPECT_THAT(pair(two, npy_file("|i1", "(2,)", "\x01\xff")), HasSubstr("label -1 of sample 1, expected 0 to 999999"));
}

TEST_F(Tensors, NamesSplitsOfDifferentShape) {
  const auto train = put("train.safetensors", sample_file(4, 3));
  EXPECT_THAT(problem({{"train", train}, {"val", put("val.safetensors", sample_file(4, 2))}}),
              AllOf(HasSubstr("val.safetensors: tensor \"input\": is [4, 2] float32, but "),
                    HasSubstr("train.safetensors: tensor \"input\" is [4, 3] float32")));
  const auto floats =
      safetensors_file("{" + entry("input", "F32", "[1,3]", 0, 12) + "," + entry("target", "F32", "[1]", 12, 16) + "}",
                       std::string(16, '\0'));
  EXPECT_THAT(problem({{"train", train}, {"test", put("test.safetensors", floats)}}),
              HasSubstr("integers are classes, floats are values"));
}

// Two texts of three symbols, with a class for each symbol, a mask and an age.
std::string text_file(const std::string& age_type = "I64") {
  const auto ages = age_type == "I64" ? bytes_of<int64_t>({30, 40}) : bytes_of<double>({30, 40});
  const auto header = "{" + entry("input", "U8", "[2,3]", 0, 6) + "," + entry("target", "I64", "[2,3]", 6, 54) + "," +
                      entry("mask", "BOOL", "[2,3]", 54, 60) + "," + entry("age", age_type, "[2]", 60, 76) + "," +
                      entry("odd", "U8", "[1]", 76, 77) + "}";
  return safetensors_file(header, "\x07\x08\x09\x0A\x0B\x0C" + bytes_of<int64_t>({0, 4, -100, 1, 2, 3}) +
                                      std::string("\x01\x01\x00\x01\x00\x00", 6) + ages + "x");
}

Options with_extras(const std::string& file, const std::vector<std::string>& names) {
  auto extras = Value::list(), values = Value::map();
  for (const auto& name : names) extras.items().push_back(Value::scalar(name));
  values.set("train", Value::scalar(file));
  values.set("symbols", Value::scalar("true"));
  values.set("extras", extras);
  return Options(std::move(values), "dataset");
}

TEST_F(Tensors, GivesSymbolsAndExtrasAsTheyAre) {
  const auto data = load_dataset(TENSORS_PLUGIN, with_extras(put("a.safetensors", text_file()), {"mask", "age"}));
  data->start();
  const auto spec = data->spec();
  EXPECT_EQ(spec.classes, 5);
  EXPECT_EQ(spec.extras, (std::map<std::string, std::vector<int64_t>>{{"age", {}}, {"mask", {3}}}));
  EXPECT_FALSE(data->labels(Split::kTrain).defined()) << "a sample has no class";
  const auto batch = data->get(Split::kTrain, std::vector<int64_t>{1, 0, 1});
  EXPECT_TRUE(batch.input.equal(at::tensor({10, 11, 12, 7, 8, 9, 10, 11, 12}, at::kLong).view({3, 3})));
  EXPECT_TRUE(batch.target.equal(at::tensor({1, 2, 3, 0, 4, -100, 1, 2, 3}, at::kLong).view({3, 3})));
  EXPECT_TRUE(batch.extra("age").equal(at::tensor({40, 30, 40}, at::kLong)));
  EXPECT_TRUE(batch.extra("mask").equal(at::tensor({1, 0, 0, 1, 1, 0, 1, 0, 0}, at::kLong).to(at::kBool).view({3, 3})));
}

TEST_F(Tensors, NamesExtrasThatDoNotFit) {
  const auto problem_of = [&](const std::vector<std::string>& names, const std::string& bytes) {
    return message_of<std::runtime_error>(
        [&] { load_dataset(TENSORS_PLUGIN, with_extras(put("a.safetensors", bytes), names))->start(); });
  };
  EXPECT_THAT(problem_of({"maks"}, text_file()),
              AllOf(HasSubstr("has no tensor \"maks\", but "), HasSubstr("dataset.extras")));
  EXPECT_THAT(problem_of({"odd"}, text_file()), HasSubstr("tensor \"odd\": has 1 rows, but "));
  EXPECT_THAT(problem_of({"age"}, text_file("F64")),
              HasSubstr("tensor \"age\": is [2] float64, expected float32, int64 or bool"));
  EXPECT_THAT(problem_of({"mask", "mask"}, text_file()), HasSubstr("dataset.extras: mask is another tensor's name"));
  EXPECT_THAT(problem_of({}, sample_file(2)), HasSubstr("is [2, 3] float32, but dataset.symbols says"));
  EXPECT_THAT(message_of<std::runtime_error>([&] {
                load_dataset(TENSORS_PLUGIN, {{"train", "a.safetensors"}, {"symbols", "true"}, {"scale", "2"}});
              }),
              HasSubstr("dataset.scale: symbols are not scaled"));
}

// Pictures of 1 x 2 pixels in two channels.
std::string picture_file(const std::string& masks, const std::string& mask_shape = "[3,1,2]") {
  const auto size = static_cast<int64_t>(masks.size());
  return safetensors_file(
      "{" + entry("input", "U8", "[3,2,1,2]", 0, 12) + "," + entry("target", "U8", mask_shape, 12, 12 + size) + "}",
      "0123456789ab" + masks);
}

TEST_F(Tensors, GivesMasksOfPicturesAsAClassForEachPixel) {
  const std::string masks("\0\1\2\xff\0\1", 6);
  const auto data = start({{"train", put("a.safetensors", picture_file(masks))}, {"ignored", "255"}});
  EXPECT_EQ(data->spec().classes, 3);
  EXPECT_FALSE(data->labels(Split::kTrain).defined()) << "a picture has no class";
  const auto batch = data->get(Split::kTrain, std::vector<int64_t>{1, 0});
  EXPECT_EQ(batch.input.sizes(), at::IntArrayRef({2, 2, 1, 2}));
  EXPECT_TRUE(batch.target.equal(at::tensor({2, -100, 0, 1}, at::kLong).view({2, 1, 2})));
  EXPECT_EQ(start({{"train", put("a.safetensors", picture_file(masks))}, {"classes", "256"}})->spec().classes, 256);
}

TEST_F(Tensors, GivesVolumesAClassForEachVoxel) {
  const auto pair =
      start_pair(npy_file("|u1", "(2, 1, 1, 1, 2)", "abcd"), npy_file("|u1", "(2, 1, 1, 2)", {0, 1, 2, 0}));
  EXPECT_TRUE(
      pair->get(Split::kTrain, std::vector<int64_t>{1}).target.equal(at::tensor({2, 0}, at::kLong).view({1, 1, 1, 2})));
}

TEST_F(Tensors, TakesAnyNumberOfClassesWhereTheExperimentSaysThatTheyAre) {
  const auto texts = put("a.safetensors", safetensors_file("{" + entry("input", "U8", "[2,3]", 0, 6) + "," +
                                                               entry("target", "U8", "[2,2]", 6, 10) + "}",
                                                           std::string("\1\1\1\1\1\1\0\1\2\0", 10)));
  const Settings settings{{"train", texts}, {"symbols", "true"}};
  EXPECT_THAT(problem(settings), HasSubstr("is [2, 2] uint8, expected one class for each sample, or for each symbol"));
  EXPECT_THAT(problem(settings), HasSubstr("set dataset.classes to how many there are"));
  auto said = settings;
  said.emplace_back("classes", "5");
  const auto batch = start(said)->get(Split::kTrain, std::vector<int64_t>{0, 1});
  EXPECT_TRUE(batch.target.equal(at::tensor({0, 1, 2, 0}, at::kLong).view({2, 2})));
}

TEST_F(Tensors, DoesNotGuessThat255IsAClass) {
  const std::string masks("\0\1\2\xff\0\1", 6);
  EXPECT_THAT(problem({{"train", put("a.safetensors", picture_file(masks))}}),
              HasSubstr("the largest label is 255, and most below it do not occur: if it marks what has no class, set "
                        "dataset.ignored=255; if it is a class, set dataset.classes=256"));
  EXPECT_THAT(message_of<UserError>([&] {
                start_pair(npy_file("|u1", "(2, 1)", "ab"), npy_file("|u1", "(2,)", std::string("\1\xff", 2)));
              }),
              HasSubstr("leave those samples out; if it is a class"));
}

TEST_F(Tensors, RefusesASplitWithoutATargetThatCounts) {
  const Settings some{{"train", put("a.safetensors", picture_file(std::string("\0\1\1\xff\0\1", 6)))},
                      {"val", put("b.safetensors", picture_file("\xff\xff\xff\xff\xff\xff"))},
                      {"ignored", "255"}};
  EXPECT_THAT(problem(some), HasSubstr("b.safetensors: tensor \"target\": all labels are 255, that of symbols and "
                                       "pixels without a class: nothing would count"));
}

TEST_F(Tensors, NamesMasksThatDoNotFitTheirPictures) {
  const auto problem_of = [&](const std::string& shape, const std::string& masks, const Settings& more = {}) {
    Settings settings{{"train", put("a.safetensors", picture_file(masks, shape))}};
    settings.insert(settings.end(), more.begin(), more.end());
    return problem(settings);
  };
  EXPECT_THAT(problem_of("[3,2,1]", "abcdef"),
              AllOf(HasSubstr("is [3, 2, 1] uint8, a class for each pixel, but the pictures are [3, 2, 1, 2] uint8"),
                    HasSubstr("expected masks [N, H, W] of their pictures' height and width")));
  EXPECT_THAT(problem_of("[3,1,1,2]", "abcdef"), HasSubstr("leave out the dimension of 1"));
  EXPECT_THAT(problem_of("[3,1,2]", "abcdef", {{"classes", "4"}}),
              HasSubstr("label 97 of sample 0, expected 0 to 3; number the classes from 0, or set dataset.classes or "
                        "dataset.ignored"));
  EXPECT_THAT(problem_of("[3]", "abc", {{"ignored", "255"}}), HasSubstr("is for a class for each symbol or pixel"));
  const auto flat = npy_file("|u1", "(2, 1, 2)", "abcd");
  EXPECT_THAT(message_of<UserError>([&] { start_pair(flat, flat); }),
              HasSubstr("save pictures of one channel as [N, 1, H, W]"));
}

TEST_F(Tensors, UsesTheNamesAskedFor) {
  const auto file =
      safetensors_file("{" + entry("x", "U8", "[1]", 0, 1) + "," + entry("y", "U8", "[1]", 1, 2) + "}", "ab");
  const auto data = start({{"train", put("a.safetensors", file)}, {"input", "y"}, {"target", "x"}});
  EXPECT_EQ(data->get(Split::kTrain, std::vector<int64_t>{0}).target.item<int64_t>(), 'a');
}

}  // namespace
}  // namespace ddprun::test
