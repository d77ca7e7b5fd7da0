// SPDX-License-Identifier: MIT
#include "config/config_fixture.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReadPretrained : public ConfigFixture {
 protected:
  std::string error(const std::string& section) const { return load_error(kMinimal + "pretrained: " + section + "\n"); }
};

TEST_F(ReadPretrained, ReadsAllItsKeysAndTheRunItselfReadsThemAgain) {
  const auto text = kMinimal +
                    "pretrained: {file: w.safetensors, rename: {\"^module\\\\.\": \"\", \"^(a|b)\\\\.\": \"x.$1.\"}, "
                    "skip: [fc.*], layer_decay: 0.75}\n";
  write("frozen.yaml", to_yaml(composed(text), true));
  for (const auto& pretrained : {loaded(text).pretrained, load_experiment({.experiment = "frozen.yaml"}).pretrained}) {
    EXPECT_EQ(pretrained.file, folder() / "w.safetensors");
    ASSERT_EQ(pretrained.rename.size(), 2U);
    EXPECT_EQ(pretrained.rename[0].pattern, "^module\\.");
    EXPECT_EQ(pretrained.rename[1].replacement, "x.$1.");
    EXPECT_THAT(pretrained.skip.patterns, ElementsAre("fc.*"));
    EXPECT_EQ(pretrained.layer_decay, 0.75);
  }
}

TEST_F(ReadPretrained, RefusesWhatItCannotMean) {
  EXPECT_THAT(error("{rename: {\"(\": x}, file: f}"),
              HasSubstr("pretrained.rename: \"(\" is not a regular expression"));
  EXPECT_THAT(error("{rename: {\"(a)\": \"\\\\1\"}, file: f}"), HasSubstr("the first group is $1 here, not \\1"));
  EXPECT_THAT(error("{skip: [fc.*]}"),
              HasSubstr("pretrained.skip: concerns the weights of pretrained.file, which is not"));
  EXPECT_THAT(error("{layer_decay: 1.5}"), HasSubstr("pretrained.layer_decay"));
  EXPECT_THAT(error("{fil: f}"), HasSubstr("did you mean file?"));
}

}  // namespace
}  // namespace ddprun
