// SPDX-License-Identifier: MIT
// Where the pictures of a shard lie, and their classes: its index.
//
// The index of train-000000.tar is train-000000.tar.index, a .safetensors file:
//
//   offset, bytes, label  int64 [N], of each picture
//   class_offset          int64 [N], of the member that holds its class
//   check                 int64 [N], members_check() of the two
//   shard_bytes           int64 [1], the size of the tar
//   shard_mtime_ns        int64 [1], when it was last changed
//   left_alone            uint8, optional: what is part of no sample, JSON: [{"reason", "count", "examples"}]
#pragma once

#include "encoded_picture.h"

#include <ddprun/dataset.h>

#include <cstdint>
#include <vector>

namespace ddprun::images {

struct ShardIndex {
  std::vector<int64_t> offset, bytes, label, class_offset, check;
  std::vector<LeftAlone> left_alone;
};

// How many of the members that an index points to are compared before it is taken. Reading a picture compares its own.
enum class Compare { kSome, kAll };  // some, spread evenly

// Returns the index of a shard: that beside it, if it is of a tar of this size and time with these members; otherwise
// one that is rebuilt and, while `writes`, written. Where that cannot be it says so to `progress` and clears
// `writes`.
//
// Throws UserError with the shard, and the member where there is one, if it is cut short, compressed or no tar, if a
// key has no class or no picture or comes twice, or if a member cannot be read where it lies.
ShardIndex index_for(const MappedFile& shard, Compare compare, const Progress& progress, bool& writes);

}  // namespace ddprun::images
