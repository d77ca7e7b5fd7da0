// SPDX-License-Identifier: MIT
// Shards of pictures, with right checksums; and indexes of a shard that is right, told apart by the first byte.
#include "shard.h"

#include "fuzz/fuzz_target.h"
#include "fuzz/tar_sums.h"

#include <filesystem>
#include <stdexcept>

namespace ddprun {
namespace {

void no_progress(const std::string&, int64_t, int64_t) {}

void list(const std::filesystem::path& shard) {
  const auto found = images::list_shards({images::Shards{shard}}, no_progress);
  for (const auto& sample : found.of(Split::kTrain)) {
    const auto& picture = sample.picture;
    if (picture.begin > picture.shard->size || picture.size > picture.shard->size - picture.begin)
      throw std::logic_error("a picture beyond its shard");
    picture.text();
  }
}

}  // namespace

void feed_shard(std::string_view bytes) {
  const bool is_index = bytes.starts_with('i');
  const auto shard = fuzz::as_file(is_index ? std::string(4096, '\0') : fuzz::with_sums(bytes), "pictures.tar");
  const auto index = shard.string() + ".index";
  std::filesystem::remove(index);
  if (is_index) fuzz::as_file(bytes.substr(1), "pictures.tar.index");
  list(shard);
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(shard, feed_shard)
