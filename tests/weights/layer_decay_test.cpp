// SPDX-License-Identifier: MIT
#include "weights/layer_decay.h"

#include "support/error_of.h"
#include "support/toy.h"

#include <ddprun/parameters.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Names that end in weight are matrices, the others are not.
std::vector<size_t> layers(const std::vector<std::string>& names) {
  std::vector<NamedParameter> parameters;
  for (const auto& name : names)
    parameters.push_back({name, name.ends_with("weight") ? torch::zeros({2, 2}) : torch::zeros({2})});
  return layers_of(parameters);
}

TEST(LayersOf, CountsBlocksAndWhatIsNotNumberedInTheirOrder) {
  EXPECT_THAT(layers({"conv1.weight", "bn1.scale", "bn1.bias", "layer1.0.conv1.weight", "layer1.0.bn1.scale",
                      "layer1.0.downsample.0.weight", "layer1.1.conv1.weight", "layer2.0.conv1.weight", "fc.weight",
                      "fc.bias"}),
              ElementsAre(0, 0, 0, 1, 1, 1, 2, 3, 4, 4));
}

TEST(LayersOf, FindsBlocksBelowModulesThatHoldThem) {
  EXPECT_THAT(layers({"h.wte.weight", "h.wpe.weight", "h.h.0.attn.weight", "h.h.0.mlp.weight", "h.h.1.attn.weight",
                      "h.ln_f.scale", "lm_head.weight"}),
              ElementsAre(0, 1, 2, 2, 3, 3, 4));
  EXPECT_THAT(
      layers({"class_token", "conv_proj.weight", "encoder.pos_embedding", "encoder.layers.encoder_layer_0.mlp.0.weight",
              "encoder.layers.encoder_layer_1.mlp.3.weight", "encoder.ln.scale", "heads.head.weight"}),
      ElementsAre(0, 0, 0, 1, 2, 2, 3));
}

TEST(LayersOf, TakesAWordWithADigitForAName) {
  EXPECT_THAT(layers({"hidden1.weight", "hidden1.bias", "hidden2.weight", "output.weight"}), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(layers({"only.scale"}), ElementsAre(0));
}

TEST(StartOptimizer, RefusesLayerDecayForOneWithoutGroupsForIt) {
  testing::ToyModel model;
  model.prepare({.sample_shape = {8}, .classes = 3});
  testing::ToySgd plain(0.1);
  PretrainedConfig config;
  start_optimizer(plain, trainable_parameters(model), config);
  config.layer_decay = 0.5;
  testing::ToySgd other(0.1);
  EXPECT_THAT(
      error_of([&] { start_optimizer(other, trainable_parameters(model), config); }),
      HasSubstr("pretrained.layer_decay: this optimizer has no groups for layers: hidden.weight is in one with"));
  EXPECT_EQ(layer_decay_text(model, config),
            "2 layers, whose lr is that of the next one times 0.5: from 0.5 of it for "
            "hidden.weight to all of it for output.weight");
}

}  // namespace
}  // namespace ddprun
