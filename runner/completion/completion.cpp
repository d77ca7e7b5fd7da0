// SPDX-License-Identifier: MIT
#include "completion/completion.h"

#include "base/files_below.h"
#include "completion/override_words.h"
#include "config/compose.h"
#include "config/config_files.h"
#include "config/defaults_list.h"
#include "config/experiment.h"

#include <ddprun/error.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Candidates = std::vector<Candidate>;

bool is_override(const std::string& word) { return word.find('=') != word.npos || word.starts_with('~'); }

void append(Candidates& all, Candidates more) { std::ranges::move(more, std::back_inserter(all)); }

// Returns the files and folders that a path may become; a folder ends in a slash.
Candidates files(const std::string& word, const std::function<bool(const fs::path&)>& is_wanted) {
  Candidates found;
  const auto slash = word.rfind('/');
  const auto before = slash == word.npos ? "" : word.substr(0, slash + 1);
  std::error_code error;
  for (fs::directory_iterator at(before.empty() ? "." : before, error), end; !error && at != end; at.increment(error)) {
    const auto name = at->path().filename().string();
    if (name.starts_with('.') && !word.substr(before.size()).starts_with('.')) continue;
    std::error_code ignored;
    if (at->is_directory(ignored)) {
      found.push_back({before + name + "/"});
    } else if (is_wanted(at->path())) {
      found.push_back({before + name});
    }
  }
  return found;
}

bool is_any(const fs::path&) { return true; }
bool is_none(const fs::path&) { return false; }
bool is_yaml(const fs::path& file) { return file.extension() == ".yaml"; }

Candidates experiments() {
  std::set<std::string> names;
  for (const auto& folder : config_search_path()) {
    std::error_code error;
    for (fs::directory_iterator at(folder / "experiments", error), end; !error && at != end; at.increment(error))
      if (is_yaml(at->path())) names.insert("experiments/" + at->path().filename().string());
  }
  Candidates found;
  for (const auto& name : names) found.push_back({name});
  return found;
}

// Returns the runs in outputs/, the latest of each experiment first.
Candidates runs() {
  Candidates latest, others;
  std::error_code error;
  for (fs::directory_iterator of("outputs", error), end; !error && of != end; of.increment(error)) {
    std::error_code inner;
    for (fs::directory_iterator at(of->path(), inner); !inner && at != end; at.increment(inner)) {
      std::error_code ignored;
      if (!fs::exists(at->path() / "config.yaml", ignored)) continue;
      (at->path().filename() == "latest" ? latest : others).push_back({at->path().string()});
    }
  }
  append(latest, std::move(others));
  return latest;
}

Candidates checkpoints(const std::string& run) {
  Candidates found{{"best", "the best by the monitored metric"}, {"last", "the newest"}};
  std::error_code error;
  for (fs::directory_iterator at(fs::path(run) / "checkpoints", error), end; !error && at != end; at.increment(error)) {
    const auto name = at->path().filename().string();
    if (name.starts_with("step_")) found.push_back({name});
  }
  return found;
}

class Line {
 public:
  Line(const Words& words, const Description& description) : description_(description), current_(words.back()) {
    command_ = &description;
    Words before(words.begin(), words.end() - 1);
    std::erase_if(before, [](const std::string& word) { return word == "--quiet" || word == "--verbose"; });
    is_first_ = before.empty();
    auto rest = take_command(before);
    if (command_ == &description && !is_first_) command_ = named(description, "run");
    take_arguments(rest);
  }

  Candidates candidates() const {
    if (option_) return values_of_option();
    if (current_.starts_with("-")) return options();
    Candidates found;
    if (target_.empty()) append(found, commands());
    if (is_first_) append(found, of_argument("experiment"));
    append(found, of_arguments());
    return found;
  }

  bool may_name_plugin() const {
    const auto name = command_->value("name", "");
    if (option_) return name == "watch";
    const auto arguments = (*command_)["arguments"].get<Words>();
    return std::ranges::any_of(arguments, [&](const std::string& argument) {
      return argument == "overrides" || argument == "plugin" || (argument == "checkpoint" && name != "export");
    });
  }

 private:
  // Returns the composed experiment, or nothing if the line names none that can be read.
  Experiment experiment() const try {
    ComposeInput input{.experiment = target_, .search_path = config_search_path()};
    if (target_.empty()) return {};
    if (open_below(target_, "config.yaml").open()) {
      input.experiment = fs::path(target_) / "config.yaml";
      input.frozen = true;
    }
    for (const auto& word : overrides_)
      if (is_override(word)) input.overrides.push_back(word);
    Problems ignored;
    return load_experiment(input, ignored);
  } catch (const UserError&) {
    return {};
  }

  static const Description* named(const Description& of, const std::string& name) {
    for (const auto& command : of["commands"])
      if (command["name"] == name) return &command;
    return nullptr;
  }

  // Follows the commands at the beginning, and returns the words after them.
  Words take_command(const Words& words) {
    size_t used = 0;
    for (; used < words.size(); ++used) {
      const auto* next = named(*command_, words[used]);
      if (!next) break;
      command_ = next;
    }
    return {words.begin() + static_cast<std::ptrdiff_t>(used), words.end()};
  }

  const Description* option_named(const std::string& word) const {
    for (const auto& option : (*command_)["options"])
      for (const auto& name : option["names"])
        if (name == word) return &option;
    return nullptr;
  }

  // Sorts the words before the current one into options and arguments.
  void take_arguments(const Words& words) {
    for (const auto& word : words) {
      const auto* option = option_ ? nullptr : option_named(word);
      if (option_) {
        option_ = nullptr;
      } else if (option) {
        if ((*option)["value"] != "") option_ = option;
      } else if (word.starts_with("-")) {
        continue;
      } else if (target_.empty() && !is_override(word)) {
        target_ = word;
      } else {
        overrides_.push_back(word);
      }
    }
  }

  Candidates commands() const {
    Candidates found;
    for (const auto& command : (*command_)["commands"]) found.push_back({command["name"], command["help"]});
    return found;
  }

  Candidates options() const {
    Candidates found;
    auto all = (*command_)["options"];
    if (is_first_) {
      const auto& of_run = (*named(description_, "run"))["options"];
      all.insert(all.end(), of_run.begin(), of_run.end());
    }
    for (const auto& option : all)
      for (const auto& name : option["names"])
        if (name.get<std::string>().starts_with("--")) found.push_back({name, option["help"]});
    return found;
  }

  Candidates values_of_option() const {
    Candidates found;
    for (const auto& choice : (*option_)["choices"]) found.push_back({choice});
    const auto value = (*option_)["value"].get<std::string>();
    if (value.starts_with("FILE")) append(found, files(current_, is_any));
    if (value == "GROUP") {
      for (const auto& [key, schema] : description_["schema"]["properties"].items())
        if (!schema.contains("default") && key != "defaults" && key != "plugin_path")
          found.push_back({group_of_key(key)});
    }
    if (value == "NAME" && command_->value("name", "") == "watch")
      append(found, plugin_names("logger", description_["schema"]));
    return found;
  }

  Candidates of_arguments() const {
    Candidates found;
    const auto arguments = (*command_)["arguments"].get<Words>();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const bool is_next = i == 0 ? target_.empty() && !is_override(current_) : true;
      const bool repeats = arguments[i] == "run" && command_->value("name", "") == "report";
      if (is_next || repeats) append(found, of_argument(arguments[i]));
      if (i == 0 && is_next) break;
    }
    return found;
  }

  Candidates of_argument(const std::string& argument) const {
    const auto& schema = description_["schema"];
    if (argument == "overrides") return of_overrides();
    if (argument == "checkpoint") return of_checkpoint();
    Candidates found;
    if (argument == "experiment") append(found = experiments(), files(current_, is_yaml));
    if (argument == "run") append(found = runs(), files(current_, is_none));
    if (argument == "folder") append(found, files(current_, is_any));
    if (argument == "word")
      for (const auto& [key, section] : schema["properties"].items()) found.push_back({key});
    if (argument == "plugin") {
      for (const auto* kind : {"model", "dataset", "optimizer", "logger", "callback"})
        append(found, plugin_names(kind, schema));
      append(found, files(current_, [](const fs::path& file) { return file.extension() == ".so"; }));
    }
    return found;
  }

  // Returns keys or values; files where the values have no names.
  Candidates of_overrides() const {
    auto found = complete_override(current_, experiment().config, description_["schema"]);
    const auto equals = current_.find('=');
    if (!found.empty() || equals == current_.npos) return found;
    for (auto& file : files(current_.substr(equals + 1), is_any))
      found.push_back({current_.substr(0, equals + 1) + file.text});
    return found;
  }

  Candidates of_checkpoint() const {
    Candidates found;
    if (overrides_.empty() && !is_override(current_)) found = checkpoints(target_);
    const bool may_change = command_->value("name", "") != "export";
    if (may_change) append(found, of_overrides());
    return found;
  }

  const Description& description_;
  const Description* command_;
  const Description* option_ = nullptr;  // its value is the current word
  std::string current_, target_;
  Words overrides_;
  bool is_first_ = false;
};

}  // namespace

std::vector<Candidate> complete(const Words& words, const Description& description) {
  if (words.empty()) return {};
  std::vector<Candidate> fitting;
  std::set<std::string> seen;
  for (auto& candidate : Line(words, description).candidates()) {
    if (!candidate.text.starts_with(words.back()) || !seen.insert(candidate.text).second) continue;
    std::ranges::replace_if(candidate.help, [](unsigned char byte) { return byte < 0x20; }, ' ');
    const auto control = [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; };
    if (std::ranges::none_of(candidate.text, control)) fitting.push_back(std::move(candidate));
  }
  return fitting;
}

bool may_name_plugin(const Words& words, const Description& description) {
  return !words.empty() && Line(words, description).may_name_plugin();
}

}  // namespace ddprun
