// SPDX-License-Identifier: MIT
#include "runs/config_lines.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using Texts = std::vector<std::string>;

TEST(OverridesApart, AreThoseThatNotAllHave) {
  EXPECT_EQ(overrides_apart({{"optimizer.lr=0.1", "trainer.max_steps=9", "run.dir=a"},
                             {"optimizer.lr=0.2", "trainer.max_steps=9", "run.dir=b"}}),
            (Texts{"lr=0.1", "lr=0.2"}));
  EXPECT_EQ(overrides_apart({{"a.x=1"}, {"a.x=1", "a.y=2"}, {"~a.y", "a.x=1"}}), (Texts{"", "y=2", "~y"}));
  EXPECT_EQ(overrides_apart({{"a.x=1"}, {"+a.x=2"}, {"++a.x=3"}}), (Texts{"x=1", "x=2", "x=3"}));
}

TEST(OverridesApart, KeepTheirOrderAndTheLastOfTwo) {
  EXPECT_EQ(overrides_apart({{"b.z=1", "a.x=1", "b.z=2"}, {"b.z=3", "a.x=2"}}), (Texts{"x=1 z=2", "z=3 x=2"}));
}

TEST(OverridesApart, AreNamedInFullWhereTwoPathsEndAlike) {
  EXPECT_EQ(overrides_apart({{"model.size=1", "data.size=2", "model.depth=3"}, {}}),
            (Texts{"model.size=1 data.size=2 depth=3", ""}));
}

TEST(OverridesApart, OfARunAloneAreNone) {
  EXPECT_EQ(overrides_apart({{"a.x=1"}}), (Texts{""}));
  EXPECT_TRUE(overrides_apart({}).empty());
}

TEST(OverridesApart, OfABrokenFileDoNoHarm) {
  EXPECT_EQ(overrides_apart({{"", "=", "++", "~", "a"}, {"b="}})[1], "b=");
}

}  // namespace
}  // namespace ddprun
