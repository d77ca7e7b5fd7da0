// SPDX-License-Identifier: MIT
#include "launch/private_folder.h"

#include <ddprun/error.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace ddprun {
namespace fs = std::filesystem;

PrivateFolder::PrivateFolder() {
  std::error_code ignored;
  std::string pattern = (fs::temp_directory_path(ignored) / "ddprun-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw UserError("cannot make a temporary folder " + pattern + ": " + std::strerror(errno) +
                    "; set TMPDIR to a folder on this machine that can be written");
  }
  path_ = pattern;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace ddprun
