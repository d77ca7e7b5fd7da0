// SPDX-License-Identifier: MIT
// Reads the weights that pretrained.file names.
#pragma once

#include <ddprun/safetensors.h>

#include <filesystem>

namespace ddprun {

// Reads all tensors of a .safetensors file, of those that an index (model.safetensors.index.json, or the folder that
// holds it) lists, of a checkpoint, or of a run's newest good one; of the last two the averaged weights if there are
// any. Throws UserError naming the file and the flaw, or how to convert what torch.save() wrote.
TensorDict read_weights(const std::filesystem::path& path);

}  // namespace ddprun
