// SPDX-License-Identifier: MIT
// What a data set consists of, and where to download it.
#pragma once

#include "download.h"

#include <string>
#include <vector>

namespace ddprun::remote {

struct FileEntry {
  RemoteFile archive;
  std::vector<std::string> unpacked;  // alternatives below the folder, any of which will do; checked before the archive
};

struct FileTable {
  std::string name;  // of the data set and its folder
  std::vector<FileEntry> files;
  std::vector<std::string> mirrors;
  std::vector<std::string> subfolders = {};  // of dataset.root, searched too: torchvision's
};

}  // namespace ddprun::remote
