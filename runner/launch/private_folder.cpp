// SPDX-License-Identifier: MIT
#include "launch/private_folder.h"

#include <ddprun/error.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace ddprun {
namespace fs = std::filesystem;

namespace {

fs::path make_folder(const fs::path& below, const std::string& advice) {
  std::string pattern = (below / "ddprun-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw UserError("cannot make a temporary folder " + pattern + ": " + std::strerror(errno) + advice);
  return pattern;
}

fs::path temporary_files() {
  std::error_code ignored;
  return fs::temp_directory_path(ignored);
}

}  // namespace

PrivateFolder::PrivateFolder()
    : path_(make_folder(temporary_files(), "; set TMPDIR to a folder on this machine that can be written")) {}

PrivateFolder::PrivateFolder(const fs::path& below) : path_(make_folder(below, "")) {}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace ddprun
