// SPDX-License-Identifier: MIT
#include "cli/new_file.h"

#include "base/durable_file.h"

#include <ddprun/error.h>

#include <unistd.h>

#include <string>

namespace ddprun {

NewFile::NewFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(path_, error)))
    throw UserError("--out " + path_.string() + " exists already, and is not overwritten; choose another name");
  const auto absolute = std::filesystem::absolute(path_);
  if (!std::filesystem::is_directory(absolute.parent_path(), error))
    throw UserError("--out " + path_.string() + ": there is no folder " + absolute.parent_path().string());
  temporary_ = absolute.string() + ".tmp-" + std::to_string(::getpid());
}

NewFile::~NewFile() {
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void NewFile::keep() { rename_to_new(temporary_, std::filesystem::absolute(path_)); }

}  // namespace ddprun
