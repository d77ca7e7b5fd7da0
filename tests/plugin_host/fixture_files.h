// SPDX-License-Identifier: MIT
// Finds the tests' plugins, and makes others of them.
#pragma once

#include "support/temporary_folder.h"

#include <ddprun/descriptor.h>

#include <filesystem>
#include <string>

namespace ddprun {

inline std::filesystem::path fixture_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "plugin_fixtures";
}

inline std::string fixture(const std::string& name) { return (fixture_folder() / (name + ".so")).string(); }

// The library of a good plugin, with these bytes in place of those at an offset of its descriptor.
inline std::string stamped(size_t offset, const std::string& bytes) {
  auto library = read_bytes(fixture("reads_all_option_types"));
  return library.replace(library.find(DDPRUN_DESCRIPTOR_MAGIC) + offset, bytes.size(), bytes);
}

class TemporaryFolder : public TestFolder {
 public:
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    return write_bytes(*this / name, bytes);
  }
};

}  // namespace ddprun
