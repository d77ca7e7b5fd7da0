// SPDX-License-Identifier: MIT
// Texts of the user's in the languages of schedulers.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

// One word of a shell, whatever is in it.
std::string shell_word(const std::string& text);
std::string shell_words(const std::vector<std::string>& words);

// A YAML scalar in double quotes: also a string of JSON's where the text is UTF-8.
std::string yaml_text(const std::string& text);

// The nearest name that Kubernetes takes: a letter, then up to 39 more letters of the small ones, digits and -.
std::string kubernetes_name(const std::string& text);

}  // namespace ddprun
