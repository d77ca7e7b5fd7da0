// SPDX-License-Identifier: MIT
// A file that a command makes: there whole or not at all, and never in place of another.
#pragma once

#include <filesystem>

namespace ddprun {

class NewFile {
 public:
  // Throws UserError where the file exists already or its folder does not.
  explicit NewFile(std::filesystem::path path);
  ~NewFile();  // removes what was not kept
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }  // absolute: what is to be written

  // Gives it its name. Throws UserError where somebody else has taken that meanwhile.
  void keep();

 private:
  std::filesystem::path path_, temporary_;
};

}  // namespace ddprun
