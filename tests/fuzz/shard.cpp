// SPDX-License-Identifier: MIT
// Shards of pictures, with right checksums; and indexes of a shard that is right, distinguished by the first byte.
#include "shard.h"

#include "fuzz/fuzz_target.h"
#include "support/written_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
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
    try {
      picture.require_unchanged();
    } catch (const std::runtime_error&) {
    }
  }
}

}  // namespace

void feed_shard(std::string_view bytes) {
  const bool is_index = bytes.starts_with('i');
  const auto shard = fuzz::as_file(is_index ? std::string(4096, '\0') : test::with_sums(bytes), "pictures.tar");
  const auto index = shard.string() + ".index";
  std::filesystem::remove(index);
  if (is_index) {
    fuzz::as_file(bytes.substr(1), "pictures.tar.index");
    constexpr std::array<timespec, 2> kTime{};  // of shard_mtime_ns in the corpus
    ::utimensat(AT_FDCWD, shard.c_str(), kTime.data(), 0);
  }
  list(shard);
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(shard, feed_shard)
