// SPDX-License-Identifier: MIT
// How two trees become one.
#pragma once

#include <ddprun/value.h>

#include <string_view>

namespace ddprun {

// Puts `over` on top of `base`. Maps merge key by key; anything else replaces what was there: a list replaces the whole
// list, null the whole section.
//
// A map that names another `plugin` (in objective: another `name`) than the one below replaces it whole: the options of
// a convnet mean nothing to an mlp, and must not linger to be refused by it.
void merge(Value& base, Value over, std::string_view key = "");

// What chooses in the map below this key: "name" for objective, "plugin" for all others.
std::string_view selector_of(std::string_view key);

// The short forms, in place: `model: mlp` is {plugin: mlp}, as are dataset, optimizer and each entry of loggers;
// `objective: mse` is {name: mse}; a lone logger or plugin_path is a list of one.
void expand_short_forms(Value& root);

// Whether the section's text form names a plugin or an objective.
bool has_short_form(std::string_view section);

}  // namespace ddprun
