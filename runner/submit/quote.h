// SPDX-License-Identifier: MIT
// Quotes the user's texts in the languages of schedulers.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

// Returns one shell word, whatever is in the text.
std::string shell_word(const std::string& text);
std::string shell_words(const std::vector<std::string>& words);

// Returns a YAML scalar in double quotes, which is also a JSON string if the text is UTF-8.
std::string yaml_text(const std::string& text);

// Returns the nearest name that Kubernetes accepts: a letter, then up to 39 more lower-case letters, digits and -.
std::string kubernetes_name(const std::string& text);

}  // namespace ddprun
