// SPDX-License-Identifier: MIT
// Files that somebody wants to train on, and what a dataset plugin makes of them. `ddprun init FOLDER` asks all dataset
// plugins whose class has this method, by the files' names first: what is in them is for the dataset to read.
//
//   static std::optional<ddprun::Recognized> recognize(const ddprun::FoundFiles& found) {
//     const auto spectra = found.ending_in({".spc"});
//     if (spectra.empty()) return std::nullopt;
//     ddprun::Recognized recognized{.what = found.counted(spectra, "spectrum")};
//     recognized.options.set("root", ddprun::path_value(found.folder));
//     return recognized;
//   }
#pragma once

#include <ddprun/api.h>
#include <ddprun/value.h>

#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

using FilePaths = std::vector<std::filesystem::path>;

// All files below a folder, or one file alone, but hidden ones and what systems leave beside others.
struct DDPRUN_API FoundFiles {
  std::filesystem::path folder;  // absolute
  FilePaths files;               // absolute, sorted

  // Returns whether there is a file or folder of this name, relative to the folder.
  bool has(const std::filesystem::path& below) const;

  // Returns the files whose names end so, in any case: {".npy", ".npz"}.
  FilePaths ending_in(std::initializer_list<std::string_view> endings) const;

  // Returns "train", "val" or "test" for a file that is called so in a word of its name or its folders', "valid" and
  // other usual names included; "train" if no word says.
  std::string split_of(const std::filesystem::path& file) const;
  std::map<std::string, FilePaths> by_split(const FilePaths& files) const;

  // Returns a path as it stands below the folder.
  std::string name_of(const std::filesystem::path& file) const;

  // Returns "2 arrays, such as x.npy" for two files and "array"; `files` are one at least.
  std::string counted(const FilePaths& files, const std::string& what) const;
};

// What a plugin says of files that it knows.
struct Recognized {
  // By names that only this set of data has; by the kind of the files; or because the plugin reads what no other does.
  // Who knows the names is asked before who knows the kind; of two plugins of one rank neither is taken.
  enum class By { kNames, kKind, kDefault };

  By by = By::kKind;
  std::string what;                                 // "12 pictures, such as cats/1.png"
  Value options = Value::map();                     // of the dataset; paths are absolute, as path_value() makes them
  std::map<std::string, std::string> remarks = {};  // by option: stands beside it in the experiment, as a comment
  std::string problem = {};  // why the dataset could not read them, and what it expects; empty if it can
};

// Returns what is to say of files that only one set of data has, read from `root` without a download.
DDPRUN_API Recognized recognized_by_names(const FoundFiles& found, const std::string& name);

// As options have paths.
DDPRUN_API Value path_value(const std::filesystem::path& path);
DDPRUN_API Value path_values(const FilePaths& paths);

}  // namespace ddprun
