// SPDX-License-Identifier: MIT
// A folder for a test, and files of a run in it.
#pragma once

#include "support/temporary_folder.h"

namespace ddprun {

class RunFiles : public FolderTest {
 protected:
  // Makes its folders.
  std::filesystem::path write(const std::filesystem::path& name, const std::string& text) const {
    FolderTest::write(folder_ / name, text);
    return folder_ / name;
  }

  std::string read(const std::filesystem::path& name) const { return FolderTest::read(folder_ / name); }

  // The least that is a run's folder.
  std::filesystem::path make_run(const std::filesystem::path& name, const std::string& config = "name: toy\n") const {
    write(name / "config.yaml", config);
    std::filesystem::create_directories(folder_ / name / "logs");
    return folder_ / name;
  }
};

}  // namespace ddprun
