// SPDX-License-Identifier: MIT
// Composes an experiment's file and the overrides of the command line into one tree of values, each with its origin.
//
// Files. An experiment lists the files it is made of:
//
//   defaults: [model/convnet, optimizer/sgd, experiments/base]
//
//   - "model/convnet" is <folder>/model/convnet.yaml in the first folder that has it: the experiment's own folder (or
//     the one above, where its own is called experiments), then the search path. Its content goes below the key
//     `model`; that of "logger/..." below `loggers`, where it may be a list; that of "experiments/..." at the root.
//   - Later entries win over earlier ones, and a file's own keys over its defaults. A file of a group may have defaults
//     too: its neighbours by their name alone, other groups in full. A cycle is an error.
//   - Maps merge key by key. A list replaces the whole list, null the whole value. A section that names another
//     `plugin` (objective: another `name`) replaces the whole section, so that no option of the other plugin lingers.
//   - `model: mlp` is short for {plugin: mlp}, as for dataset, optimizer and entries of loggers; `objective: mse` is
//     short for {name: mse}.
//
// Overrides, applied in order, though choices of plugins and files go before the rest:
//
//   trainer.max_epochs=3    change a key; it need not be written in a file, but must be known
//   model.dropout=0.2       an option of a plugin: the plugin itself checks it
//   optimizer=adam          the file optimizer/adam.yaml where there is one, else {plugin: adam}; it replaces a
//                           plugin's section and merges into others, as trainer=short does
//   loggers[0]=csv          an entry of a list, counted from 0; loggers.0 is the same
//   +loggers=tensorboard    append to a list; +a.b=1 adds a key that is not there yet
//   ++a.b=1                 add or change
//   ~early_stopping         remove
//
// A value that begins with [, {, " or ' is YAML; any other is taken as it stands. `key=` is the empty text.
//
// References. ${seed}, ${trainer.max_epochs} and ${loggers[0].plugin} stand for other values, written or default;
// ${env:HOME} and ${env:HOME,default} for the environment; ${now:%Y-%m-%d} for the local time of the start. A reference
// that is the whole value keeps the type, a list or map included. ${secret:TOKEN} stays as it is until a plugin gets
// it: secrets.h. \${ is a plain ${. YAML wants them in 'quotes' inside [] and {}.
#pragma once

#include "config/defaults_list.h"

#include <ddprun/value.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct ComposeInput {
  std::filesystem::path experiment;                // tried as given, then on the search path (config_files.h)
  std::vector<std::string> overrides;              // key=value, +key=value, ++key=value, ~key, group=option
  std::vector<std::filesystem::path> search_path;  // folders with experiments and the groups of `defaults:`
  bool frozen = false;  // the config.yaml of a run: its values are final, and ${ is plain text
};

// Reads the file, composes its `defaults:`, applies the overrides and interpolates. Fills in `name` (the file's stem)
// and `loggers`, and makes the paths of plugins absolute: relative ones start at the file that has them, or at the
// current folder on the command line. Throws UserError with all mistakes, one a line. read_experiment checks what the
// keys mean.
Value compose(const ComposeInput& input);

struct Composition {
  Value config;
  Value recorded;                          // of a frozen one: as its run has it, without the overrides
  bool complete = false;                   // nothing is missing, so a reader's complaints are justified
  std::vector<std::string> failed_places;  // places of values that keep their ${...}, already reported
};

// Does the same, but appends the mistakes to `problems`, one full line each.
Composition try_compose(const ComposeInput& input, Problems& problems);

// Reads one YAML file as a tree. Throws UserError for what YAML or our limits forbid: duplicate keys, cycles, alias
// bombs, more than 1 MB, deeper than 64.
Value load_yaml(const std::filesystem::path& file);

// Returns the tree as YAML, each line with its value's origin as a comment if `origins` is set. load_yaml reads it
// back: the same texts, types and order.
std::string to_yaml(const Value& value, bool origins);

// Throws UserError with the first hundred of these lines.
[[noreturn]] void throw_problems(const std::vector<std::string>& problems);

// Applies the overrides of the command line in order, but choices of a plugin or of a group's file first:
// `model.dropout=0.2 model=convnet` means what it says. Each mistake is one line in `problems`, and its override is
// skipped.
void apply_overrides(Value& config, const std::vector<std::string>& overrides, DefaultsComposer& composer,
                     Problems& problems);

}  // namespace ddprun
