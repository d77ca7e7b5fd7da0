// SPDX-License-Identifier: MIT
#include "config/plugin_choices.h"

#include "config/compose.h"

#include <ddprun/options.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

// Reads the choices of one experiment.
class ChoiceReader {
 public:
  ChoiceReader(const Value& config, Problems& problems) : config_(config), problems_(problems) {}

  PluginChoice one(const std::string& key) {
    const auto* section = config_.find(key);
    if (section && !section->is_null()) return choice(*section, key);
    if (!is_misspelt(key)) reject(config_.origin(), key, "missing; write " + example(key));
    return {.path = key};
  }

  std::vector<PluginChoice> loggers() {
    const auto* written = config_.find("loggers");
    return written ? list(*written, "loggers", "[console, csv]") : default_loggers();
  }

  std::vector<PluginChoice> callbacks() {
    const auto* written = config_.find("callbacks");
    return written && !written->is_null() ? list(*written, "callbacks", "[my_average]") : std::vector<PluginChoice>();
  }

  void objective(PluginChoice& choice) {
    const auto* written = config_.find("objective");
    choice.options = Value::map(written ? written->origin() : Origin());
    if (!written || written->is_null()) return;
    if (!written->is_map()) return expect("{name: cross_entropy}", *written, "objective");
    choice.options = *written;
    if (written->find("name")) take_name(choice, "name", "a name");
  }

  // Two loggers that are alike would write the same files, each row twice.
  void refuse_one_twice(const std::vector<PluginChoice>& loggers) {
    for (auto logger = loggers.begin(); logger != loggers.end(); ++logger) {
      const auto is_same = [&](const PluginChoice& other) {
        return !other.plugin.empty() && other.plugin == logger->plugin &&
               to_yaml(other.options, false) == to_yaml(logger->options, false);
      };
      const auto first = std::find_if(loggers.begin(), logger, is_same);
      if (first != logger)
        reject(logger->origin, logger->path,
               logger->plugin + " is " + first->path + " already, with the same options; remove one");
    }
  }

 private:
  static std::string entry_path(const std::string& key, size_t i) { return key + "[" + std::to_string(i) + "]"; }
  static std::string example(const std::string& path) { return path + ": {plugin: NAME}"; }

  static std::vector<PluginChoice> default_loggers() {
    std::vector<PluginChoice> choices;
    for (const auto* name : kDefaultLoggers)
      choices.push_back({.plugin = name, .options = Value::map(), .path = entry_path("loggers", choices.size())});
    return choices;
  }

  // Returns whether a section is missing because its key is misspelt, `optimiser`, which is already reported.
  bool is_misspelt(const std::string& key) const {
    return std::ranges::any_of(config_.entries(),
                               [&](const Value::Entry& entry) { return nearest_name(entry.key, {key}) == key; });
  }

  PluginChoice choice(const Value& section, const std::string& path) {
    PluginChoice choice{.options = section, .path = path};
    if (section.is_null()) {
      reject(section.origin(), path, "missing; write " + example(path));
    } else if (!section.is_map()) {
      expect("a plugin", section, path, "; write " + example(path));
    } else if (!section.find("plugin")) {
      reject(section.origin(), path + ".plugin", "missing; write the plugin's name");
    } else {
      take_name(choice, "plugin", "a name or the path of a .so");
    }
    return choice;
  }

  // `example` is a list for the error.
  std::vector<PluginChoice> list(const Value& plugins, const std::string& key, const std::string& example) {
    if (!plugins.is_list()) expect("a list such as " + example, plugins, key, "; [] for none");
    std::vector<PluginChoice> choices;
    for (const auto& plugin : plugins.items()) choices.push_back(choice(plugin, entry_path(key, choices.size())));
    return choices;
  }

  // Takes the plugin's name, which the key holds, out of its options.
  void take_name(PluginChoice& choice, const char* key, const std::string& expected) {
    const auto& name = *choice.options.find(key);
    if (!name.is_scalar() || name.text().empty()) return expect(expected, name, choice.path + "." + key);
    choice.plugin = name.text();
    choice.origin = name.origin();
    choice.options.erase(key);
  }

  void expect(const std::string& expected, const Value& found, const std::string& path, const std::string& hint = "") {
    reject(found.origin(), path, "expected " + expected + ", found " + describe(found) + hint);
  }

  void reject(const Origin& origin, const std::string& path, const std::string& text) {
    problems_.push_back(problem_line(origin, path, text));
  }

  const Value& config_;
  Problems& problems_;
};

}  // namespace

void read_plugins(const Value& config, Experiment& experiment, Problems& problems) {
  ChoiceReader reader(config, problems);
  experiment.model = reader.one("model");
  experiment.dataset = reader.one("dataset");
  experiment.optimizer = reader.one("optimizer");
  experiment.loggers = reader.loggers();
  reader.refuse_one_twice(experiment.loggers);
  experiment.callbacks = reader.callbacks();
  reader.objective(experiment.objective);
}

}  // namespace ddprun
