// SPDX-License-Identifier: MIT
#include "base/nearest_path.h"

#include "support/temporary_folder.h"

namespace ddprun {
namespace {

class NearestPath : public FolderTest {
 protected:
  void SetUp() override {
    for (const auto* file : {"outputs/mnist/latest/config.yaml", "outputs/digits/a.yaml"}) write(folder_ / file, "");
  }
};

TEST_F(NearestPath, CorrectsEachPartThatIsMistyped) {
  EXPECT_EQ(nearest_path(folder_ / "outputs/mnist/lates"), folder_ / "outputs/mnist/latest");
  EXPECT_EQ(nearest_path(folder_ / "output/mnits/latest/config.yaml"), folder_ / "outputs/mnist/latest/config.yaml");
}

TEST_F(NearestPath, IsEmptyWhereThePathExistsOrNothingIsNear) {
  EXPECT_EQ(nearest_path(folder_ / "outputs"), "");
  EXPECT_EQ(nearest_path(folder_ / "outputs/something/else"), "");
  EXPECT_EQ(nearest_path(""), "");
  EXPECT_EQ(did_you_mean(folder_ / "outputs/x"), "");
}

TEST_F(NearestPath, IsAskedForInAHint) {
  EXPECT_EQ(did_you_mean(folder_ / "outptus"), "; did you mean " + (folder_ / "outputs").string() + "?");
}

}  // namespace
}  // namespace ddprun
