// SPDX-License-Identifier: MIT
// Writes an output file: it appears complete or not at all, and never replaces another.
#pragma once

#include <filesystem>

namespace ddprun {

class NewFile {
 public:
  // Throws UserError if the file exists or its folder does not.
  explicit NewFile(std::filesystem::path path);
  ~NewFile();  // removes the file unless it was kept
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }  // absolute; the file to write to

  // Moves the file to its final name. Throws UserError if another process has taken that meanwhile.
  void keep();

 private:
  std::filesystem::path path_, temporary_;
};

}  // namespace ddprun
