// SPDX-License-Identifier: MIT
// Names that people take for the same, and computers do not.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// Returns what makes a name unfit for a table, a report or a terminal: "is not UTF-8", "has a control character"; empty
// if nothing does.
std::string name_flaw(const std::string& name);

// Returns whether two different names differ by no more than blanks, case, zeros before a number, or whether letters
// and their accents are stored together or apart (Unicode's NFC and NFD). The names are UTF-8.
bool are_alike(const std::string& one, const std::string& other);

// Returns the first two such names; they are all different.
std::optional<std::pair<std::string, std::string>> find_alike(const std::vector<std::string>& names);

}  // namespace ddprun
