// SPDX-License-Identifier: MIT
#include "encoded_picture.h"

#include <zlib.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace ddprun::images {
namespace {

// The parts of a member's header that say what it is; the others say who wrote it, and when.
struct Field {
  uint64_t begin, size;
};
constexpr Field kNameField{0, 100}, kSizeField{124, 12}, kFolderField{345, 155};

uint32_t add(uint32_t sum, const MappedFile& shard, uint64_t begin, uint64_t size) {
  return static_cast<uint32_t>(::crc32(sum, shard.bytes.get() + begin, static_cast<uInt>(size)));
}

}  // namespace

uint32_t members_check(const MappedFile& shard, uint64_t picture_begin, uint64_t class_begin) {
  uint32_t sum = 0;
  for (const auto content : {picture_begin, class_begin}) {
    for (const auto& field : {kNameField, kSizeField, kFolderField})
      sum = add(sum, shard, content - kTarBlock + field.begin, field.size);
  }
  return add(sum, shard, class_begin, kTarBlock);
}

// A member's header lies before its content and begins with its name.
std::string Picture::text() const {
  if (!shard) return file;
  auto name = shard->text().substr(begin - kTarBlock, kNameField.size);
  name = name.substr(0, name.find('\0'));
  const bool readable =
      !name.empty() && std::ranges::all_of(name, [](unsigned char c) { return c >= ' ' && c != 127; });
  return shard->path.string() + ": " + (readable ? std::string(name) : "the member at byte " + std::to_string(begin));
}

void Picture::require_unchanged() const {
  if (!shard || members_check(*shard, begin, class_begin) == check) return;
  throw std::runtime_error("its index, " + shard->path.filename().string() +
                           ".index, was made of other members, and would give it a wrong class; delete the index");
}

}  // namespace ddprun::images
