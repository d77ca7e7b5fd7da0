// SPDX-License-Identifier: MIT
// Finds the tests' plugins, and makes a folder for files that a test writes.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ddprun {

inline std::filesystem::path fixture_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "plugin_fixtures";
}

inline std::string fixture(const std::string& name) { return (fixture_folder() / (name + ".so")).string(); }

inline std::string file_bytes(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Removed with all in it when the test is over.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    auto text = (std::filesystem::temp_directory_path() / "ddprun_plugins_XXXXXX").string();
    path_ = mkdtemp(text.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ddprun
