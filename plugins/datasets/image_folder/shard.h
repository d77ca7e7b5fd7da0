// SPDX-License-Identifier: MIT
// Shards in WebDataset's layout: tar files whose members come in pairs of one key, KEY.jpg (.jpeg, .jpe, .jfif, .png,
// .webp) and KEY.cls, the class's number. An index beside each says where its pictures lie, so that samples can be read
// in any order.
#pragma once

#include "sample_list.h"
#include "shard_index.h"

#include <ddprun/dataset.h>

#include <array>
#include <filesystem>
#include <vector>

namespace ddprun::images {

using Shards = std::vector<std::filesystem::path>;

// Returns the files that a pattern names, sorted: one file, or several by ?, * and [0-9] in the name, or by
// WebDataset's {000000..000127}. What is there by the name as it is written is meant. Throws UserError if there is
// none.
Shards find_shards(const std::filesystem::path& pattern);

// Lists the pictures of each split's shards, in their order, by their indexes, as index_for() gives them.
// `classes.json` beside the first shard, a list, names the classes.
//
// Throws UserError as index_for() does; and if a class has no picture in train, or another split has a class that train
// has not.
SampleList list_shards(const std::array<Shards, 3>& splits, const Progress& progress, Compare compare = Compare::kSome);

}  // namespace ddprun::images
