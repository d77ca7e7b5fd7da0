// SPDX-License-Identifier: MIT
// Writes what torch.load(path, weights_only=True) opens in Python, for `ddprun export`. Nothing here reads such a file.
#pragma once

#include <ddprun/digest.h>
#include <ddprun/safetensors.h>

#include <filesystem>

namespace ddprun {

// Writes a dictionary of tensors as torch.save(model.state_dict(), file) does, strides included. Tensors on a GPU are
// copied to the CPU, all at once. Throws UserError if the file cannot be written, std::invalid_argument for a tensor
// that it cannot hold.
FileDigest write_torch_file(const std::filesystem::path& file, const TensorDict& tensors);

}  // namespace ddprun
