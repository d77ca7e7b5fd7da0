// SPDX-License-Identifier: MIT
#include "recognize.h"

#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

namespace ddprun::arrays {
namespace {

namespace fs = std::filesystem;

// The files of a split: one .safetensors file, or inputs and targets.
using SplitFiles = std::map<std::string, std::array<fs::path, 2>>;

// Returns the words of a name: "x", "train" for X_train.
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (std::string_view("_-. ").find(c) != std::string_view::npos)
      words.emplace_back();
    else
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return words;
}

// Returns whether it holds inputs (0) or targets (1); nothing if the name does not say.
std::optional<size_t> role_of(const fs::path& file) {
  static const std::array<std::set<std::string>, 2> kRoles{
      std::set<std::string>{"input", "inputs", "x", "data", "images", "features"},
      std::set<std::string>{"target", "targets", "y", "label", "labels", "classes"}};
  for (const size_t role : {0, 1})
    for (const auto& word : words_of(file.stem().string()))
      if (kRoles[role].contains(word)) return role;
  return std::nullopt;
}

// Throws UserError with what is wrong.
SplitFiles split_files(const FoundFiles& found, const FilePaths& arrays) {
  SplitFiles splits;
  for (const auto& file : arrays) {
    const auto role = file.extension() == ".npy" ? role_of(file) : 0;
    if (!role) throw UserError(file.filename().string() + " does not say whether it holds inputs or targets");
    auto& place = splits[found.split_of(file)][*role];
    if (!place.empty())
      throw UserError(place.filename().string() + " and " + file.filename().string() + " seem to be the same");
    place = file;
  }
  for (const auto& [split, files] : splits) {
    if (files[0].extension() == ".safetensors" && files[1].empty()) continue;
    if (files[0].empty() || files[1].empty()) throw UserError(split + " lacks its inputs or its targets");
    if (files[0].extension() != files[1].extension()) throw UserError("there are two ways to save " + split);
  }
  if (!splits.contains("train")) throw UserError("no training samples are there");
  return splits;
}

std::string names_of(const FoundFiles& found, const FilePaths& arrays) {
  constexpr size_t kMostNames = 8;
  std::string names;
  for (size_t i = 0; i < std::min(kMostNames, arrays.size()); ++i)
    names += (i == 0 ? "" : ", ") + found.name_of(arrays[i]);
  return names + (arrays.size() > kMostNames ? " ..." : "");
}

}  // namespace

std::optional<Recognized> recognize(const FoundFiles& found) {
  const auto arrays = found.ending_in({".npy", ".safetensors"});
  if (arrays.empty()) return std::nullopt;
  Recognized recognized{.what = found.counted(arrays, "array")};
  try {
    for (const auto& [split, files] : split_files(found, arrays)) {
      FilePaths named(files.begin(), files.end());
      std::erase_if(named, [](const fs::path& file) { return file.empty(); });
      recognized.options.set(split, path_values(named));
    }
  } catch (const UserError& error) {
    recognized.problem = error.what() + (": found " + names_of(found, arrays)) +
                         "; expected train.safetensors, or input.npy and target.npy (x.npy and y.npy), and for splits "
                         "val.safetensors, val_input.npy, val_target.npy, and test likewise";
  }
  return recognized;
}

}  // namespace ddprun::arrays
