// SPDX-License-Identifier: MIT
// Replaces ${...} in the values of a composed tree; compose.h tells the syntax.
#pragma once

#include "config/yaml_reader.h"

#include <ddprun/value.h>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Each mistake is one line in `problems`. Returns the places of the values that keep their ${...} because of one: a
// reader's complaint about those says nothing new.
std::vector<std::string> interpolate(Value& config, Problems& problems);

// A text with ${...} in it, cut into what stands as it is and what refers to something.
inline constexpr std::string_view kSecretOpen = "${secret:";  // stays a text until a plugin gets it: secrets.h

struct TextPart {
  std::string text;  // of a reference: what is between the braces
  bool is_reference = false;
};

// What is wrong with a reference; caught where its value is.
struct BadReference {
  std::string text;  // empty where the mistake is another value's, reported there
};

// "a-${seed}-\${x}" is "a-", the reference seed, "-${x}"; "\${secret:x}" stays as it is. Throws BadReference for a
// brace that is not closed.
std::vector<TextPart> split_references(std::string_view text);

}  // namespace ddprun
