// SPDX-License-Identifier: MIT
// Says what a dataset found where it looked, and what of that it left alone.
#pragma once

#include <ddprun/dataset.h>

#include <nlohmann/json.hpp>

#include <string>

namespace ddprun {

// Asks a started dataset. Throws PluginMistake or PluginFailure.
DataAccount account_of(const Dataset& dataset);

// Returns "20 of 36 files left alone: 12 in sub-folders (such as cat/s/1.png) and 8 .bmp", or "all 36 files used";
// empty for a dataset that keeps no account.
std::string account_text(const DataAccount& account);

// Returns what data.json and the page of data hold of it: the text and the numbers.
nlohmann::ordered_json account_json(const DataAccount& account);

}  // namespace ddprun
