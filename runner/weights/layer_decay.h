// SPDX-License-Identifier: MIT
// Scales the learning rates of layers by their distance from the last one: pretrained.layer_decay (Clark, Luong, Le,
// Manning: "ELECTRA", 2020; Bao, Dong, Piao, Wei: "BEiT", 2021).
#pragma once

#include "config/experiment.h"

#include <ddprun/model.h>
#include <ddprun/optimizer.h>

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun {

// Returns for each parameter the layer that it belongs to, counted from 0 in the order of the model.
//
// A layer is a numbered module ("layer1.0", "blocks.11", "layers.encoder_layer_3") with all that is in it, or a module
// with no numbered one in it ("conv1", "embeddings", "fc"). What has no matrix, with two dimensions at least, is not a
// layer of its own: a norm, and parameters of a module that holds layers, belong to the layer before them, at the start
// to the first.
std::vector<size_t> layers_of(const std::vector<NamedParameter>& parameters);

// Gives the optimizer all parameters that the model trains, with their lr_scale. Throws UserError if it does not keep
// those of different scales apart.
void start_optimizer(Optimizer& optimizer, std::vector<NamedParameter> parameters, const PretrainedConfig& config);

// Returns "10 layers, whose lr is that of the next one times 0.75: from 0.075 of it for conv1.weight to all of it for
// fc.weight".
std::string layer_decay_text(const Model& model, const PretrainedConfig& config);

}  // namespace ddprun
