// SPDX-License-Identifier: MIT
// A folder for a test, and files of a run in it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ddprun {

class RunFiles : public ::testing::Test {
 protected:
  RunFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "ddprun_report_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~RunFiles() override { std::filesystem::remove_all(folder_); }

  // Makes its folders.
  std::filesystem::path write(const std::filesystem::path& name, const std::string& text) const {
    const auto file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

  std::string read(const std::filesystem::path& name) const {
    std::ifstream stream(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  // The least that is a run's folder.
  std::filesystem::path make_run(const std::filesystem::path& name, const std::string& config = "name: toy\n") const {
    write(name / "config.yaml", config);
    std::filesystem::create_directories(folder_ / name / "logs");
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

}  // namespace ddprun
