// SPDX-License-Identifier: MIT
// What a data set consists of, and where it can be had.
#pragma once

#include "download.h"

#include <string>
#include <vector>

namespace ddprun::remote {

struct FileEntry {
  RemoteFile archive;
  std::vector<std::string> unpacked;  // paths below the folder of which one does as well; looked for before the archive
};

struct FileTable {
  std::string name;  // of the data set and of its folder
  std::vector<FileEntry> files;
  std::vector<std::string> mirrors;
  std::vector<std::string> subfolders = {};  // of dataset.root that are looked at too: torchvision's
};

}  // namespace ddprun::remote
