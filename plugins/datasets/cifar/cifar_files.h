// SPDX-License-Identifier: MIT
// The files of a CIFAR data set, from the archive or from a folder.
#pragma once

#include "cifar_table.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::cifar {

struct CifarFile {
  std::string place;  // error messages begin with it
  std::vector<uint8_t> bytes;
};
using CifarFiles = std::map<std::string, CifarFile>;  // by name

// Reads the files that the table names. `path` is the archive, or the first training file of an unpacked one, in the
// binary form or the one for Python; both give the same records. Sizes are checked before anything is allocated. Throws
// UserError if a file is missing, of an impossible size or damaged, or if the archive has a member outside its folder,
// or a link.
CifarFiles read_files(const std::filesystem::path& path, const CifarTable& table);

struct Images {
  std::shared_ptr<const uint8_t> pixels;
  std::vector<int64_t> labels;
};

// Returns the records of these files one after the other, with the labels of table.labels[kind]. Throws UserError for a
// label out of range, naming file and record.
Images to_images(const CifarFiles& files, const std::vector<std::string>& names, const CifarTable& table, size_t kind);

// Returns one name per line. Throws UserError if there are not as many as classes.
std::vector<std::string> class_names(const CifarFiles& files, const LabelKind& kind);

}  // namespace ddprun::cifar
