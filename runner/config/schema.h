// SPDX-License-Identifier: MIT
// Knows the keys that an experiment may have, from the declarations that also read them (experiment_keys).
#pragma once

#include "config/experiment_reader.h"
#include "config/key_path.h"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class Schema {
 public:
  Schema() : sections_(experiment_keys()) {}

  // Returns whether a section has options that only its plugin or objective knows.
  static bool is_open(const std::string& section);

  // Returns whether the key may be written. Below an open section every key may: its plugin checks it later.
  bool allows(const KeyPath& path) const;

  // Returns whether this is a section with keys of its own, such as trainer.
  bool is_section(const std::string& key) const;

  // Returns "unknown key; did you mean max_epochs? known: ...", for a path that is not allowed.
  std::string unknown_key(const KeyPath& path) const;

  // Returns the default of a key that has one.
  std::optional<std::string> fallback(const KeyPath& path) const;

  // Returns all known paths: "seed", "trainer", "trainer.max_epochs", ...
  std::vector<std::string> paths() const;

 private:
  const SectionHelp* section(const std::string& name) const;
  static const OptionDeclaration* key(const SectionHelp& section, const std::string& name);

  std::vector<SectionHelp> sections_;  // the first has no name and the keys of the root
};

}  // namespace ddprun
