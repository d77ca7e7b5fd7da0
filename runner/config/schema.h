// SPDX-License-Identifier: MIT
// Which keys an experiment may have, from the declarations that also read them (experiment_keys).
#pragma once

#include "config/experiment.h"
#include "config/key_path.h"

#include <ddprun/value.h>

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class Schema {
 public:
  Schema() : sections_(experiment_keys()) {}

  // Whether a section has options that only its plugin or objective knows.
  static bool is_open(const std::string& section);

  // Whether the key may be written. Below an open section every key may: its plugin checks later.
  bool allows(const KeyPath& path) const;

  // Whether this is a section with keys of its own, such as trainer.
  bool is_section(const std::string& key) const;

  // "unknown key; did you mean max_epochs? known: ...", for a path that is not allowed.
  std::string unknown_key(const KeyPath& path) const;

  // The default of a key that has one.
  std::optional<std::string> fallback(const KeyPath& path) const;

  // All paths known: "seed", "trainer", "trainer.max_epochs", ...
  std::vector<std::string> paths() const;

 private:
  const SectionHelp* section(const std::string& name) const;
  static const OptionDeclaration* key(const SectionHelp& section, const std::string& name);

  std::vector<SectionHelp> sections_;  // the first, without a name, holds the keys of the root
};

// Keys of the experiment file that have had another name. The old one is read as the new one until 0.3, with a warning.

// The path under its present name.
KeyPath current_name(KeyPath path, const Origin& origin);

// The same for all that is written in a file. A key that is there under both names keeps them: the old one is unknown.
void use_current_names(Value& config);

}  // namespace ddprun
