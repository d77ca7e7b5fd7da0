// SPDX-License-Identifier: MIT
#include "models/model_under_test.h"

#include <ddprun/testing.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const DataSpec kPictures{.sample_shape = {2, 6, 9}, .classes = 3};

TEST(UNet, KeepsThePromisesOfAModel) {
  auto batch = check::random_batch(kPictures, 4);
  batch.target = batch.input.argmax(1) + batch.input.select(1, 0).gt(0.5);  // a class for each pixel
  const check::ModelTest net{
      .make = check::model_plugin(UNET_PLUGIN, {{"width", 4}, {"depth", 1}}), .data = kPictures, .batch = batch};
  EXPECT_THAT(check::all(net), IsEmpty());
}

TEST(UNet, GivesLogitsForEachPixelOfImagesOfAnySize) {
  for (const auto& [height, width] : {std::pair{32, 32}, std::pair{17, 23}, std::pair{16, 31}}) {
    const auto model = prepared("unet", {.sample_shape = {3, height, width}, .classes = 5}, {{"width", "4"}});
    EXPECT_EQ(model->forward(torch::randn({2, 3, height, width})).sizes(), at::IntArrayRef({2, 5, height, width}));
  }
}

// The paper's network with padding, BatchNorm and one channel has 31.0 M.
TEST(UNet, HasThePapersWidthsByDefault) {
  EXPECT_EQ(numbers_in(*prepared("unet", {.sample_shape = {1, 16, 16}, .classes = 2})), 31036546);
  const auto model = prepared("unet", kPictures, {{"width", "4"}, {"depth", "1"}});
  EXPECT_EQ(model->named_parameters()["up.0.pair.conv1.weight"].sizes(), at::IntArrayRef({4, 8, 3, 3}));
}

TEST(UNet, RefusesImagesThatAreHalvedToNothing) {
  EXPECT_THAT(error_of_preparing("unet", {.sample_shape = {3, 15, 64}, .classes = 2}), HasSubstr("at least 16 x 16"));
  EXPECT_EQ(error_of_preparing("unet", {.sample_shape = {3, 15, 64}, .classes = 2}, {{"depth", "3"}}), "");
}

}  // namespace
}  // namespace ddprun
