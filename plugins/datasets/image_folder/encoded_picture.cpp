// SPDX-License-Identifier: MIT
#include "encoded_picture.h"

namespace ddprun::images {

// A member's header lies before its content and begins with its name.
std::string Picture::text() const {
  constexpr uint64_t kHeader = 512, kName = 100;
  if (!shard) return file;
  const auto name = shard->text().substr(begin - kHeader, kName);
  return shard->path.string() + ": " + std::string(name.substr(0, name.find('\0')));
}

}  // namespace ddprun::images
