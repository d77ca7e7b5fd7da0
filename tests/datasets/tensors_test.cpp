// SPDX-License-Identifier: MIT
// The dataset of arrays. Which files of NumPy's and of safetensors are taken, and what is in them, is compared with
// their own readers in tests/differential; here it is what is said of them.
#include "plugin_under_test.h"
#include "support/written_files.h"

#include <ATen/ATen.h>

#include <limits>
#include <set>

namespace ddprun::test {
namespace {

// Inputs of `width` float32 values and one int64 class each: input value i of all is i, target n is n % classes.
std::string sample_file(int64_t samples, int64_t width = 3, int64_t classes = 4) {
  std::vector<float> input;
  Numbers target;
  for (int64_t i = 0; i < samples * width; ++i) input.push_back(static_cast<float>(i));
  for (int64_t n = 0; n < samples; ++n) target.push_back(n % classes);
  const auto count = std::to_string(samples);
  const size_t end = input.size() * 4;
  return safetensors_file({entry("input", "F32", "[" + count + "," + std::to_string(width) + "]", 0, end),
                           entry("target", "I64", "[" + count + "]", end, end + target.size() * 8)},
                          bytes_of(input) + bytes_of(target));
}

class Tensors : public FolderTest {
 protected:
  std::string put(const std::string& name, const std::string& bytes) const {
    return write_bytes(folder_ / name, bytes).string();
  }

  static std::shared_ptr<Dataset> start(const Settings& settings) { return started_dataset(TENSORS_PLUGIN, settings); }

  // With train: [input.npy, target.npy] of these contents.
  std::shared_ptr<Dataset> start_pair(const std::string& input, const std::string& target) const {
    return start({{"train", "[" + put("input.npy", input) + ", " + put("target.npy", target) + "]"}});
  }

  static std::string problem(const Settings& settings) {
    return error_of([&] { start(settings); });
  }
  std::string pair_problem(const std::pair<std::string, std::string>& files) const {
    return error_of([&] { start_pair(files.first, files.second); });
  }
};

at::Tensor whole(const Numbers& values, at::IntArrayRef shape) { return at::tensor(values, at::kLong).view(shape); }

TEST_F(Tensors, GivesRowsInTheOrderAsked) {
  const auto data = start({{"train", put("a.safetensors", sample_file(6))}, {"val", "[]"}, {"fold", "0"}});
  const auto batch = data->get(Split::kTrain, Numbers{4, 0, 5});
  EXPECT_TRUE(batch.input.equal(whole({12, 13, 14, 0, 1, 2, 15, 16, 17}, {3, 3}).to(at::kFloat)));
  EXPECT_TRUE(batch.target.equal(whole({0, 0, 1}, {3})));
  EXPECT_TRUE(batch.index.equal(whole({4, 0, 5}, {3})));
  EXPECT_EQ(data->size(Split::kTrain), 6);
  EXPECT_EQ(data->size(Split::kVal), 0);
  EXPECT_EQ(data->spec().sample_shape, (std::vector<int64_t>{3}));
  EXPECT_EQ(data->spec().classes, 4);
  EXPECT_THROW(data->get(Split::kTrain, Numbers{6}), std::out_of_range);
}

TEST_F(Tensors, TensorsThatNobodyNamesAreCounted) {
  const auto account = [&](const std::string& target) {
    const auto file = safetensors_file({entry("input", "F32", "[2,1]", 0, 8), entry("more", "F8_E4M3", "[4]", 8, 12),
                                        entry("target", "U8", "[2]", 12, 14)},
                                       bytes_of<float>({1, 2, 3}) + target);
    return start({{"train", put("a.safetensors", file)}})->account();
  };
  const auto found = account(std::string("\0\1", 2));
  EXPECT_EQ(found.used, 2);
  ASSERT_EQ(found.left_alone.size(), 1U);
  EXPECT_TRUE(says(found.left_alone[0].examples.at(0), "a.safetensors: more"));
  EXPECT_EQ(found.digest, account(std::string("\0\1", 2)).digest);
  EXPECT_NE(found.digest, account(std::string("\1\0", 2)).digest);
}

TEST_F(Tensors, ScalesAndNormalizesTheInputs) {
  const auto data =
      start({{"train", put("a.safetensors", sample_file(2))}, {"scale", "0.5"}, {"mean", "3"}, {"std", "2"}});
  const auto input = data->get(Split::kTrain, Numbers{1}).input;
  EXPECT_TRUE(input.equal(at::tensor({-0.75, -0.5, -0.25}, at::kFloat).view({1, 3})));
}

TEST_F(Tensors, TakesFloatTargetsAsValues) {
  const auto data = start_pair(npy_file("|u1", "(2,)", "\x07\x08"),
                               npy_file("<f8", "(2, 2)", bytes_of<double>({0.5, 1.5, 2.5, 3.5})));
  const auto batch = data->get(Split::kTrain, Numbers{1});
  EXPECT_TRUE(batch.target.equal(at::tensor({2.5, 3.5}, at::kFloat).view({1, 2})));
  EXPECT_TRUE(batch.input.equal(at::tensor({8.}, at::kFloat).view({1, 1})));
  EXPECT_EQ(data->spec().classes, 0);
}

TEST_F(Tensors, RefusesNumbersBeyondFloat32ButNotThoseThatAreInfinite) {
  const auto infinity = std::numeric_limits<double>::infinity();
  const auto data = start_pair(npy_file("<f8", "(3,)", bytes_of<double>({1, 1e300, infinity})),
                               npy_file("|u1", "(3,)", std::string("\0\1\0", 3)));
  EXPECT_TRUE(says(error_of([&] { data->get(Split::kTrain, Numbers{0, 1}); }),
                   "input.npy: row 1 has 1e+300, which is beyond float32"));
  EXPECT_EQ(data->get(Split::kTrain, Numbers{2}).input.item<double>(), infinity);
}

TEST_F(Tensors, CountsTheClassesOverAllSplits) {
  const auto train = put("train.safetensors", sample_file(8, 3, 4)),
             test = put("test.safetensors", sample_file(8, 3, 7));
  EXPECT_EQ(start({{"train", train}, {"test", test}})->spec().classes, 7);
  EXPECT_EQ(start({{"train", train}, {"classes", "10"}})->spec().classes, 10);
  EXPECT_TRUE(says(problem({{"train", train}, {"test", test}, {"classes", "5"}}),
                   "test.safetensors: tensor \"target\": label 5 of sample 5, expected 0 to 4"));
}

// The numbers of all samples of a split, of which each is its input.
std::set<float> samples_of(const Dataset& data, Split split) {
  const auto input = first(data, split, data.size(split)).input;
  return {input.const_data_ptr<float>(), input.const_data_ptr<float>() + input.numel()};
}

TEST_F(Tensors, HoldsOutTheSameSamplesForASeedAndEachInOneFold) {
  const auto file = put("a.safetensors", sample_file(100, 1));
  const auto held_out = [&](Settings settings, size_t count) {
    settings.emplace_back("train", file);
    const auto data = start(settings);
    const auto val = samples_of(*data, Split::kVal);
    auto all = samples_of(*data, Split::kTrain);
    EXPECT_EQ(all.size() + val.size(), 100U);
    all.insert(val.begin(), val.end());
    EXPECT_EQ(all.size(), 100U);
    EXPECT_EQ(val.size(), count);
    return val;
  };
  const auto fraction = [&](const std::string& seed) {
    return held_out({{"val_fraction", "0.2"}, {"seed", seed}}, 20);
  };
  EXPECT_EQ(fraction("1"), fraction("1"));
  EXPECT_NE(fraction("1"), fraction("2"));
  std::set<float> all;
  for (const auto* fold : {"0", "1", "2"})
    all.merge(held_out({{"folds", "3"}, {"fold", fold}}, *fold == '0' ? 34 : 33));
  EXPECT_EQ(all.size(), 100U);
}

TEST_F(Tensors, FindsMistakesBeforeAnyWorkerStarts) {
  const auto data = load_dataset(TENSORS_PLUGIN, {{"train", folder_ / "absent.safetensors"}});
  EXPECT_TRUE(says(error_of([&] { data->prepare({}); }), "absent.safetensors: cannot be opened: No such file"));
}

TEST_F(Tensors, RefusesOptionsThatHaveNoEffectOrContradictEachOther) {
  const auto file = put("a.safetensors", sample_file(3));
  const auto values = put(
      "b.safetensors", safetensors_file({entry("input", "F32", "[1,3]", 0, 12), entry("target", "F32", "[1]", 12, 16)},
                                        std::string(16, '\0')));
  const auto narrow = put("c.safetensors", sample_file(4, 2));
  expect_refused<Settings>(
      problem,
      {{{}, "dataset.train: missing; it has no default"},
       {{{"train", ""}}, "expected a .safetensors file or [input.npy, target.npy]"},
       {{{"train", folder_}}, "is not a file"},
       {{{"train", put("empty.safetensors", "")}}, "empty.safetensors: the file is empty"},
       {{{"train", put("a.npy", npy_file("|u1", "(1,)", "x"))}}, "[input.npy, target.npy]"},
       {{{"train", put("iris.csv", "1.5,2.5,setosa\n")}}, "is a table of text"},
       {{{"train", file}, {"seed", "2"}}, "seed: has no effect: neither val_fraction nor"},
       {{{"train", file}, {"val", file}, {"folds", "3"}}, "dataset.folds: there is a val file"},
       {{{"train", file}, {"val", file}, {"val_fraction", "0.1"}}, "dataset.val_fraction: there is a val file"},
       {{{"train", file}, {"val_fraction", "0.1"}}, "holds 3 samples: too few"},
       {{{"train", values}, {"classes", "2"}}, "dataset.classes is for targets that are"},
       {{{"train", file}, {"test", values}}, "integers are classes, floats are values"},
       {{{"train", file}, {"val", narrow}},
        "c.safetensors: tensor \"input\": is [4, 2] float32, but ... a.safetensors: tensor \"input\" is [3, 3] "
        "float32"},
       {{{"train", file}, {"symbols", "true"}, {"scale", "2"}}, "dataset.scale: symbols are not scaled"}});
}

TEST_F(Tensors, SaysOfAnArrayThatIsNotReadHowToSaveIt) {
  const auto two = npy_file("|u1", "(2,)", "ab");
  auto fortran = npy_file("|u1", "(2, 2)", "1234");
  fortran.replace(fortran.find("False"), 5, "True ");
  expect_refused(
      [&](const std::string& bytes) { return pair_problem({bytes, two}); },
      {{npy_file(">f4", "(1,)", "1234"),
        "input.npy: is big-endian ('>f4'), expected '<f4' ... save array.astype('<f4')"},
       {npy_file("|O", "(1,)", "1234"), "holds Python objects ('|O')"},
       {npy_file("<c8", "(1,)", "12345678"), "values of type '<c8', expected f8"},
       {fortran, "is in Fortran order ... numpy.ascontiguousarray"},
       {"PK\x03\x04 and so on", "is a .npz archive"},
       {"1.0,2.0,3.0,4.0\n", "is not a .npy file"},
       {npy_file("<f4", "(2, 2)", std::string(15, 'x')),
        "claims [2, 2] float32, which is 16 bytes, but 15 follow: it is truncated"},
       {npy_file("<f4", "(2, 2)", std::string(17, 'x')), "more than the header says"},
       {npy_file("<f8", "(4611686018427387904, 4611686018427387904)", "x"), "which is more than any number of bytes"},
       {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "a header of 4294967295 bytes"},
       {npy_file("<f4", "(-1,)", ""), "expected an extent, found \"-1,)"},
       {npy_file("|u1", "(0, 3)", ""), "input.npy: is [0, 3] uint8: no samples"},
       {npy_file("|u1", "(2, 0)", ""), "samples without a value"},
       {npy_file("|u1", "()", "a"), "holds a single number"}});
  expect_refused<std::pair<std::string, std::string>>(
      [&](const auto& files) { return pair_problem(files); },
      {{{two, npy_file("|u1", "(3,)", "abc")}, "target.npy: has 3 rows, but ... input.npy has 2"},
       {{two, npy_file("|u1", "(2, 2)", "abcd")}, "is [2, 2] uint8, expected one class"},
       {{two, npy_file("|i1", "(2,)", "\x01\xff")}, "label -1 of sample 1, expected 0 to 999999"},
       {{npy_file("|u1", "(2, 1)", "ab"), npy_file("|u1", "(2,)", std::string("\1\xff", 2))},
        "leave those samples out; if it is a class"},
       {{npy_file("|u1", "(2, 1, 2)", "abcd"), npy_file("|u1", "(2, 1, 2)", "abcd")},
        "save pictures of one channel as [N, 1, H, W]"}});
}

// Two texts of three symbols, with a class for each symbol, a mask and an age.
std::string text_file(const std::string& age_type = "I64") {
  const auto ages = age_type == "I64" ? bytes_of<int64_t>({30, 40}) : bytes_of<double>({30, 40});
  return safetensors_file({entry("input", "U8", "[2,3]", 0, 6), entry("target", "I64", "[2,3]", 6, 54),
                           entry("mask", "BOOL", "[2,3]", 54, 60), entry("age", age_type, "[2]", 60, 76),
                           entry("odd", "U8", "[1]", 76, 77)},
                          "\x07\x08\x09\x0A\x0B\x0C" + bytes_of<int64_t>({0, 4, -100, 1, 2, 3}) +
                              std::string("\x01\x01\x00\x01\x00\x00", 6) + ages + "x");
}

TEST_F(Tensors, GivesSymbolsAndExtrasAsTheyAre) {
  const auto with = [&](const std::string& bytes, const std::string& extras) {
    return Settings{{"train", put("a.safetensors", bytes)}, {"symbols", "true"}, {"extras", extras}};
  };
  const auto data = start(with(text_file(), "[mask, age]"));
  const auto spec = data->spec();
  EXPECT_EQ(spec.classes, 5);
  EXPECT_EQ(spec.extras, (std::map<std::string, std::vector<int64_t>>{{"age", {}}, {"mask", {3}}}));
  EXPECT_FALSE(data->labels(Split::kTrain).defined()) << "a sample has no class";
  const auto batch = data->get(Split::kTrain, Numbers{1, 0, 1});
  EXPECT_TRUE(batch.input.equal(whole({10, 11, 12, 7, 8, 9, 10, 11, 12}, {3, 3})));
  EXPECT_TRUE(batch.target.equal(whole({1, 2, 3, 0, 4, -100, 1, 2, 3}, {3, 3})));
  EXPECT_TRUE(batch.extra("age").equal(whole({40, 30, 40}, {3})));
  EXPECT_TRUE(batch.extra("mask").equal(whole({1, 0, 0, 1, 1, 0, 1, 0, 0}, {3, 3}).to(at::kBool)));

  expect_refused<std::pair<std::string, std::string>>(
      [&](const auto& file) { return problem(with(file.first, file.second)); },
      {{{text_file(), "[maks]"}, "has no tensor \"maks\", but ... dataset.extras"},
       {{text_file(), "[odd]"}, "tensor \"odd\": has 1 rows, but "},
       {{text_file("F64"), "[age]"}, "tensor \"age\": is [2] float64, expected float32, int64 or bool"},
       {{text_file(), "[mask, mask]"}, "dataset.extras: mask is another tensor's name"},
       {{sample_file(2), "[]"}, "is [2, 3] float32, but dataset.symbols says"}});
}

// Pictures of 1 x 2 pixels in two channels.
std::string picture_file(const std::string& masks, const std::string& mask_shape = "[3,1,2]") {
  return safetensors_file(
      {entry("input", "U8", "[3,2,1,2]", 0, 12), entry("target", "U8", mask_shape, 12, 12 + masks.size())},
      "0123456789ab" + masks);
}

const std::string kMasks("\0\1\2\xff\0\1", 6);

TEST_F(Tensors, GivesMasksOfPicturesAsAClassForEachPixel) {
  const auto train = put("a.safetensors", picture_file(kMasks));
  const auto data = start({{"train", train}, {"ignored", "255"}});
  EXPECT_EQ(data->spec().classes, 3);
  EXPECT_FALSE(data->labels(Split::kTrain).defined()) << "a picture has no class";
  const auto batch = data->get(Split::kTrain, Numbers{1, 0});
  EXPECT_EQ(batch.input.sizes(), at::IntArrayRef({2, 2, 1, 2}));
  EXPECT_TRUE(batch.target.equal(whole({2, -100, 0, 1}, {2, 1, 2})));
  EXPECT_EQ(start({{"train", train}, {"classes", "256"}})->spec().classes, 256);
  const auto volumes =
      start_pair(npy_file("|u1", "(2, 1, 1, 1, 2)", "abcd"), npy_file("|u1", "(2, 1, 1, 2)", {0, 1, 2, 0}));
  EXPECT_TRUE(volumes->get(Split::kTrain, Numbers{1}).target.equal(whole({2, 0}, {1, 1, 1, 2})));
}

TEST_F(Tensors, TakesAnyNumberOfClassesWhereTheExperimentSaysThatTheyAre) {
  const auto texts = put("a.safetensors",
                         safetensors_file({entry("input", "U8", "[2,3]", 0, 6), entry("target", "U8", "[2,2]", 6, 10)},
                                          std::string("\1\1\1\1\1\1\0\1\2\0", 10)));
  Settings settings{{"train", texts}, {"symbols", "true"}};
  EXPECT_TRUE(says(problem(settings),
                   "is [2, 2] uint8, expected one class for each sample, or for each symbol ... set dataset.classes to "
                   "how many there are"));
  settings.emplace_back("classes", "5");
  EXPECT_TRUE(first(*start(settings), Split::kTrain, 2).target.equal(whole({0, 1, 2, 0}, {2, 2})));
}

TEST_F(Tensors, NamesMasksThatDoNotFitTheirPictures) {
  int files = 0;
  const auto file = [&](const std::string& masks, const std::string& shape = "[3,1,2]") {
    return put(std::to_string(++files) + ".safetensors", picture_file(masks, shape));
  };
  expect_refused<Settings>(
      problem,
      {{{{"train", file("abcdef", "[3,2,1]")}},
        "is [3, 2, 1] uint8, a class for each pixel, but the pictures are [3, 2, 1, 2] uint8 ... expected masks "
        "[N, H, W] of their pictures' height and width"},
       {{{"train", file("abcdef", "[3,1,1,2]")}}, "leave out the dimension of 1"},
       {{{"train", file("abcdef")}, {"classes", "4"}},
        "label 97 of sample 0, expected 0 to 3; number the classes from 0, or set dataset.classes or dataset.ignored"},
       {{{"train", file("abc", "[3]")}, {"ignored", "255"}}, "is for a class for each symbol or pixel"},
       {{{"train", file(kMasks)}},
        "the largest label is 255, and most below it do not occur: if it marks what has no class, set "
        "dataset.ignored=255; if it is a class, set dataset.classes=256"},
       {{{"train", file(kMasks)}, {"val", file("\xff\xff\xff\xff\xff\xff")}, {"ignored", "255"}},
        "tensor \"target\": all labels are 255, that of symbols and pixels without a class: nothing would count"}});
}

TEST_F(Tensors, UsesTheNamesAskedFor) {
  const auto file = safetensors_file({entry("x", "U8", "[1]", 0, 1), entry("y", "U8", "[1]", 1, 2)}, "ab");
  const auto data = start({{"train", put("a.safetensors", file)}, {"input", "y"}, {"target", "x"}});
  EXPECT_EQ(data->get(Split::kTrain, Numbers{0}).target.item<int64_t>(), 'a');
}

}  // namespace
}  // namespace ddprun::test
