// SPDX-License-Identifier: MIT
// Files that torch.load(path, weights_only=True) opens in Python: dictionaries of tensors, and texts, by name:
// {"optimizer": {"conv1.weight/momentum": tensor, ...}, "progress": "{...}"}.
#pragma once

#include <ddprun/digest.h>
#include <ddprun/safetensors.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace ddprun {

struct TrainingFile {
  std::map<std::string, TensorDict> tensors;
  std::map<std::string, std::string> texts;  // UTF-8
};

// No name may be in both maps. Tensors on a GPU are copied to the CPU, all at once. Throws UserError if the file cannot
// be written, std::invalid_argument for a tensor that it cannot hold.
FileDigest write_training_file(const std::filesystem::path& file, const TrainingFile& content);

// Writes one dictionary of tensors like Python's torch.save(model.state_dict(), file); otherwise the same.
FileDigest write_state_dict(const std::filesystem::path& file, const TensorDict& tensors);

// Reads what write_training_file() wrote; tensors arrive on the CPU. Throws UserError naming the file for anything
// else: it looks up no class, and calls no function of the file but the one that makes a tensor. It does not detect
// flipped bits in the elements; a checkpoint's manifest does.
TrainingFile read_training_file(const std::filesystem::path& file);

inline constexpr uint64_t kLargestPickle = 100'000'000;  // as for the weights' header; a tensor needs 0.2 kB
inline constexpr int kMostPickleDepth = 8;               // a dictionary of dictionaries of tensors has 4

// Checks a pickle before LibTorch reads it, since LibTorch recurses once per nesting level and allocates room for as
// many values as the pickle claims. Throws std::runtime_error for one that nests deeper, is cut off, or contains what
// neither we nor torch.save() write for dictionaries of tensors.
void check_pickle(std::string_view pickle);

}  // namespace ddprun
