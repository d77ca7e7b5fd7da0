// SPDX-License-Identifier: MIT
// A trained network of the Python package transformers as a folder that its from_pretrained() opens.
#pragma once

#include <ddprun/safetensors.h>

#include <cstddef>
#include <filesystem>
#include <functional>

namespace ddprun {

// Writes config.json, generation_config.json if the network has one, and model.safetensors, which has tied weights
// once, as transformers writes them; `weights` is called once nothing else is in the way. `program` is the archive that
// the run's model was made from, which knows the configuration; empty: there is none. The folder appears complete or
// not at all; where it is there, `replaces` puts these files into it. Returns how many tensors it has written. Throws
// UserError if it is there and `replaces` is false, the archive knows no configuration, or the folder cannot be
// written.
size_t write_transformers_folder(const std::filesystem::path& program, const std::function<TensorDict()>& weights,
                                 const std::filesystem::path& folder, bool replaces);

}  // namespace ddprun
