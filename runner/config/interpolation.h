// SPDX-License-Identifier: MIT
// Replaces ${...} in the values of a composed tree; compose.h has the syntax.
#pragma once

#include "config/yaml_reader.h"

#include <ddprun/value.h>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Replaces the references. Each mistake is one line in `problems`. Returns the places of the values that keep their
// ${...} because of one: a reader's complaint about those would say nothing new.
std::vector<std::string> interpolate(Value& config, Problems& problems);

// A text with ${...} in it is cut into literal parts and references.
inline constexpr std::string_view kSecretOpen = "${secret:";  // stays a text until a plugin gets it: secrets.h

struct TextPart {
  std::string text;  // for a reference, the text between the braces
  bool is_reference = false;
};

// A mistake in a reference; caught where its value is known.
struct BadReference {
  std::string text;  // empty if the mistake is another value's and reported there
};

// Splits "a-${seed}-\${x}" into "a-", the reference seed, "-${x}"; "\${secret:x}" stays as it is. Throws BadReference
// for a brace that is not closed.
std::vector<TextPart> split_references(std::string_view text);

// Returns the text as an experiment is to have it, so that ${ in it stands for nothing.
std::string escape_references(std::string text);

}  // namespace ddprun
