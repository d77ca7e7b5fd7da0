// SPDX-License-Identifier: MIT
// What a data set in MNIST's format consists of.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::idx {

struct FileEntry {
  std::string name;           // unpacked: "train-images-idx3-ubyte"; the archive is <name>.gz
  int64_t archive_bytes = 0;  // of the official archive
  std::string archive_sha256;
  std::string content_sha256;  // of the unpacked file; empty where nobody publishes it
};

struct FileTable {
  std::string name;                // of the data set and of its folder
  std::array<FileEntry, 4> files;  // train images, train labels, test images, test labels
  std::vector<std::string> mirrors;
  double mean = 0, std = 1;  // of the training pixels, 0 .. 1
  std::vector<std::string> class_names;
};

}  // namespace ddprun::idx
