// SPDX-License-Identifier: MIT
#include "config/sections.h"

#include <algorithm>
#include <regex>
#include <string>

namespace ddprun {
namespace {

std::string place_of(const Value& value, const Options& options, const std::string& name) {
  const auto origin = value.origin().text();
  return (origin.empty() ? "" : origin + ": ") + options.path() + "." + name + ": ";
}

void read_rename(Options& options, PretrainedConfig& pretrained) {
  const auto value = options.subtree(
      "rename",
      "regular expressions and what takes the place of what they match in the file's names: {\"^module\\\\.\": \"\"}",
      "map of string");
  if (!options.has("rename")) return;
  pretrained.rename_place = place_of(value, options, "rename");
  if (!value.is_map()) return options.reject("rename", "expected {\"^module\\\\.\": \"\"}, found " + describe(value));
  static const std::regex kPythonGroup(R"(\\\d)");
  for (const auto& [pattern, origin, replacement] : value.entries()) {
    if (!replacement.is_scalar()) {
      options.reject("rename", "expected a text for \"" + pattern + "\", found " + describe(replacement));
    } else if (std::regex_search(replacement.text(), kPythonGroup)) {
      options.reject("rename", "\"" + replacement.text() + "\": the first group is $1 here, not \\1");
    }
    try {
      const std::regex compiled(pattern);
    } catch (const std::regex_error& error) {
      options.reject("rename", "\"" + pattern + "\" is not a regular expression: " + error.what());
    }
    pretrained.rename.push_back({pattern, replacement.text()});
  }
}

}  // namespace

NamePatterns patterns_in(const Value& value, Options& options, const std::string& name) {
  NamePatterns patterns{.place = place_of(value, options, name)};
  const auto is_text = [](const Value& one) { return one.is_scalar() && !one.text().empty(); };
  if (is_text(value)) {
    patterns.patterns = {value.text()};
  } else if (value.is_list() && std::ranges::all_of(value.items(), is_text)) {
    for (const auto& item : value.items()) patterns.patterns.push_back(item.text());
  } else {
    options.reject(name, "expected a pattern such as \"layer1.*\", or a list of patterns, found " + describe(value));
  }
  return patterns;
}

NamePatterns read_patterns(Options& options, const std::string& name, std::string_view help, std::string_view type) {
  const auto value = options.subtree(name, help, type);
  return options.has(name) ? patterns_in(value, options, name) : NamePatterns();
}

PretrainedConfig read_pretrained(Options& options) {
  PretrainedConfig pretrained;
  const auto path = options.subtree("file",
                                    "weights of a .safetensors file, a model.safetensors.index.json or its folder, a "
                                    "checkpoint or a run; by default they are drawn from the seed",
                                    "string");
  pretrained.file_place = place_of(path, options, "file");
  if (path.is_scalar()) {
    pretrained.file = path.text();
  } else if (options.has("file")) {
    options.reject("file", "expected a path, found " + describe(path));
  }
  read_rename(options, pretrained);
  pretrained.skip =
      read_patterns(options, "skip", "tensors that start from new values, though the file may have them: [fc.*]");
  for (const auto* name : {"rename", "skip"}) {
    if (pretrained.file.empty() && options.has(name))
      options.reject(name, "concerns the weights of pretrained.file, which is not set");
  }
  pretrained.layer_decay = options.get<double>("layer_decay", pretrained.layer_decay,
                                               "the lr of each layer is that of the one after it times this", {0, 1});
  return pretrained;
}

}  // namespace ddprun
