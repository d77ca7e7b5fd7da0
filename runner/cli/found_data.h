// SPDX-License-Identifier: MIT
// Looks at files that somebody wants to train on, for `ddprun init`: pictures in folders, or texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace ddprun {

struct FoundData {
  std::filesystem::path folder;              // absolute
  std::vector<std::filesystem::path> texts;  // none: there are pictures
  std::filesystem::path list;                // the table beside the pictures that gives their classes; may be empty
  std::optional<int64_t> side;               // the shorter side of a picture, the median of some
};

// Takes a folder, or a single text. Throws UserError if there is neither a picture nor a text, saying what was found
// and what was expected.
FoundData find_data(const std::filesystem::path& place);

}  // namespace ddprun
