// SPDX-License-Identifier: MIT
// What torch.load(path, weights_only=True) opens in Python: dictionaries of tensors, and texts, by name:
// {"optimizer": {"conv1.weight/momentum": tensor, ...}, "progress": "{...}"}.
#pragma once

#include "base/durable_file.h"
#include "checkpoint/tensor_dict.h"

#include <filesystem>
#include <map>
#include <string>

namespace ddprun {

struct TrainingFile {
  std::map<std::string, TensorDict> tensors;
  std::map<std::string, std::string> texts;  // UTF-8
};

// No name may stand in both maps. Tensors on a GPU are copied to the CPU, all at once.
// Throws UserError where the file cannot be written, std::invalid_argument for a tensor that it cannot hold.
FileDigest write_training_file(const std::filesystem::path& file, const TrainingFile& content);

// One dictionary of tensors, as Python's torch.save(model.state_dict(), file) writes it; otherwise the same.
FileDigest write_state_dict(const std::filesystem::path& file, const TensorDict& tensors);

// Reads what write_training_file() wrote; tensors arrive on the CPU. Throws UserError naming the file for anything
// else: no class is looked up and no function of the file is called but the one that makes a tensor. Flipped bits among
// the elements are not seen here: a checkpoint's manifest finds those.
TrainingFile read_training_file(const std::filesystem::path& file);

}  // namespace ddprun
