// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/files.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

namespace ddprun::images {

// An encoded picture: a file, or a member of a shard.
struct Picture {
  Picture(std::string path) : file(std::move(path)) {}
  Picture(const std::filesystem::path& path) : file(path.string()) {}
  Picture(std::shared_ptr<const MappedFile> of, uint64_t first, uint64_t bytes)
      : shard(std::move(of)), begin(first), size(bytes) {}

  std::string file;  // empty for a member; as a path it would take several times the memory
  std::shared_ptr<const MappedFile> shard;
  uint64_t begin = 0, size = 0;  // bytes of the shard

  // Returns its name for messages: the file, or the shard and the member.
  std::string text() const;
};

}  // namespace ddprun::images
