// SPDX-License-Identifier: MIT
// Files of tokens; up to the first zero byte it is the note beside the file.
#include "fuzz/fuzz_target.h"
#include "token_file.h"

#include <filesystem>
#include <vector>

namespace ddprun {

void feed_tokens(std::string_view bytes) {
  const auto end = std::min(bytes.find('\0'), bytes.size());
  const auto note = bytes.substr(0, end);
  const auto file = fuzz::as_file(bytes.substr(std::min(end + 1, bytes.size())), "tokens.bin");
  std::filesystem::remove(file.string() + ".json");
  if (!note.empty()) fuzz::as_file(note, "tokens.bin.json");
  const text::TokenFile tokens(file, {.bits = note.empty() ? 16 : 0, .vocabulary = note.empty() ? 50257 : 0});
  std::vector<int64_t> all(static_cast<size_t>(tokens.size()));
  tokens.copy(0, all);
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(tokens, feed_tokens)
