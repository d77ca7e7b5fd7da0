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
  std::string place;  // what error texts begin with
  std::vector<uint8_t> bytes;
};
using CifarFiles = std::map<std::string, CifarFile>;  // by name

// The files that the table names. `path` is the archive, or the first training file of an unpacked one, of its binary
// form or of that for Python, whose content is then the same records. Sizes are checked before anything is allocated.
// Throws UserError for a file that is missing, of a size that cannot be, or damaged; and for an archive with a member
// outside its folder, or a link.
CifarFiles read_files(const std::filesystem::path& path, const CifarTable& table);

struct Images {
  std::shared_ptr<const uint8_t> pixels;
  std::vector<int64_t> labels;
};

// The records of these files one after the other, with the labels of table.labels[kind]. Throws UserError for a label
// out of range, naming file and record.
Images to_images(const CifarFiles& files, const std::vector<std::string>& names, const CifarTable& table, size_t kind);

// A line each. Throws UserError where their number is not that of the classes.
std::vector<std::string> class_names(const CifarFiles& files, const LabelKind& kind);

}  // namespace ddprun::cifar
