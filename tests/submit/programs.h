// SPDX-License-Identifier: MIT
// Programs of the test's own on PATH, in place of a scheduler's.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ddprun::testing {

class Programs {
 public:
  Programs() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ddprun-programs-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    const char* path = std::getenv("PATH");
    old_path_ = path ? path : "";
    ::setenv("PATH", (folder_.string() + ":/usr/bin:/bin").c_str(), 1);
  }
  ~Programs() {
    ::setenv("PATH", old_path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  // A shell script of this name, in which $log is a file to write to.
  void add(const std::string& name, const std::string& script) const {
    const auto file = folder_ / name;
    std::ofstream(file) << "#!/bin/sh\nlog=" << log_file().string() << "\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  std::string log() const {
    std::ifstream file(log_file());
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::filesystem::path log_file() const { return folder_ / "log"; }

  std::filesystem::path folder_;
  std::string old_path_;
};

}  // namespace ddprun::testing
