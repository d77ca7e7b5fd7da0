// SPDX-License-Identifier: MIT
// Shards in WebDataset's layout: tar files whose members come in pairs of one key, KEY.jpg (.jpeg, .png, .webp) and
// KEY.cls, the class's number. An index beside each says where its pictures lie, so that samples can be read in any
// order.
//
// The index of train-000000.tar is train-000000.tar.index, a .safetensors file of int64 tensors: `offset` and `bytes`
// of each picture [N], `label` [N], and `shard_bytes` [1], the size of the tar that it is of.
#pragma once

#include "sample_list.h"

#include <ddprun/dataset.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::images {

using Shards = std::vector<std::filesystem::path>;

// Returns the files that a pattern names, sorted: one file, or several by ?, * and [0-9] in the name, or by
// WebDataset's {000000..000127}. Throws UserError if there is none.
Shards find_shards(const std::filesystem::path& pattern);

// Lists the pictures of each split's shards, in their order. Reads the index of a shard, or makes it and writes it
// beside the shard where that has none, or another size than it had. Where that cannot be written it says so to
// `progress`, and each process makes its own. `classes.json` beside the first shard, a list, names the classes.
//
// Throws UserError with the shard, and the member where there is one, if a shard is cut short, compressed or no tar, if
// a key has no class or no picture, or one name twice; if a class has no picture in train, or another split has a class
// that train has not.
SampleList list_shards(const std::array<Shards, 3>& splits, const Progress& progress);

}  // namespace ddprun::images
