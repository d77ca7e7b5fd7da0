// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/files.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

namespace ddprun::images {

inline constexpr uint64_t kTarBlock = 512;  // of a tar; two of zeros end it

// Returns a checksum of what a tar says of a picture and its class: the names and sizes in the headers before the two,
// and the class itself. Both must lie behind a header and before a whole block.
uint32_t members_check(const MappedFile& shard, uint64_t picture_begin, uint64_t class_begin);

// An encoded picture: a file, or a member of a shard.
struct Picture {
  Picture(std::string path) : file(std::move(path)) {}
  Picture(const std::filesystem::path& path) : file(path.string()) {}
  Picture(std::shared_ptr<const MappedFile> of, uint64_t first, uint64_t bytes, uint64_t first_of_class, uint32_t sum)
      : shard(std::move(of)), begin(first), size(bytes), class_begin(first_of_class), check(sum) {}

  std::string file;  // empty for a member; as a path it would take several times the memory
  std::shared_ptr<const MappedFile> shard;
  uint64_t begin = 0, size = 0;  // bytes of the shard
  uint64_t class_begin = 0;      // likewise, of the member that holds its class
  uint32_t check = 0;            // members_check() of the tar that the index was made of

  // Returns its name for messages: the file, or the shard and the member.
  std::string text() const;

  // Throws std::runtime_error if the shard holds another member, or another class, than its index was made of.
  void require_unchanged() const;
};

}  // namespace ddprun::images
