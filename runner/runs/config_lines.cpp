// SPDX-License-Identifier: MIT
#include "runs/config_lines.h"

#include "base/files_below.h"
#include "config/yaml_reader.h"
#include "runs/json_lines.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

namespace ddprun {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kMostLines = 20'000;

// Returns where the comment begins: the first # after a blank outside of quotes.
size_t comment_of(std::string_view line) {
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && line[i] == '#' && i > 0 && line[i - 1] == ' ') {
      return i;
    }
  }
  return line.size();
}

std::string without_blanks_at_end(std::string_view text) {
  return std::string(text.substr(0, text.find_last_not_of(' ') + 1));
}

std::string plain_text(const Value& value) { return value.is_null() ? "null" : value.text(); }

bool is_plain(const Value& value) { return value.is_null() || value.is_scalar(); }

std::string list_text(const Value& list) {
  std::string text;
  for (const auto& item : list.items()) text += (text.empty() ? "" : ", ") + plain_text(item);
  return "[" + text + "]";
}

void collect(const Value& value, const std::string& path, Values& values) {
  if (is_plain(value)) {
    values.emplace_back(path, plain_text(value));
  } else if (value.is_list() && std::ranges::all_of(value.items(), is_plain)) {
    values.emplace_back(path, list_text(value));
  } else {
    for (size_t i = 0; i < value.items().size(); ++i)
      collect(value.items()[i], path + "[" + std::to_string(i) + "]", values);
    for (const auto& entry : value.entries())
      collect(entry.value, path.empty() ? entry.key : path + "." + entry.key, values);
  }
}

}  // namespace

std::vector<ConfigLine> read_config_lines(const std::filesystem::path& file) {
  std::vector<ConfigLine> lines;
  LineReader reader(file);
  while (lines.size() < kMostLines && reader.next()) {
    const auto line = reader.line();
    const auto comment = comment_of(line);
    lines.push_back({without_blanks_at_end(line.substr(0, comment)),
                     comment < line.size() ? std::string(line.substr(std::min(line.size(), comment + 2))) : ""});
  }
  return lines;
}

std::optional<Value> read_config(const std::filesystem::path& file, std::vector<std::string>& problems) {
  Problems flaws;
  const auto text = read_below(file.parent_path(), file.filename(), kMaxYamlBytes);
  if (text.empty()) flaws.push_back(file.string() + ": missing or empty");
  auto config = text.empty() ? std::nullopt : parse_yaml(text, file.string(), flaws);
  for (const auto& flaw : flaws) problems.push_back(flaw);
  return config;
}

Values single_values(const Value& config) {
  Values values;
  collect(config, "", values);
  return values;
}

std::string value_at(const Value& config, const std::vector<std::string>& keys, const std::string& fallback) {
  const auto* value = &config;
  for (const auto& key : keys) {
    value = value->find(key);
    if (!value) return fallback;
  }
  return value->is_scalar() ? value->text() : fallback;
}

Goal goal_of(const Value& config) {
  Goal goal;
  const auto objective = value_at(config, {"objective", "name"}, value_at(config, {"objective"}, ""));
  if (objective == "mse" || objective == "l1") goal.metric = "val/loss";  // no accuracy
  goal.metric = value_at(config, {"checkpoint", "monitor"}, goal.metric);
  const bool is_loss = goal.metric.ends_with("loss") || goal.metric.ends_with("perplexity");
  goal.maximize = value_at(config, {"checkpoint", "mode"}, is_loss ? "min" : "max") == "max";
  return goal;
}

namespace {

// Returns "optimizer.lr" for "++optimizer.lr=0.1" and for "~optimizer.lr".
std::string path_of(std::string_view override_text) {
  const auto begin = std::min(override_text.find_first_not_of("+~"), override_text.size());
  return std::string(override_text.substr(begin, override_text.find('=') - begin));
}

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// The last of two with the same path counts.
std::map<std::string, std::string> by_path(const Overrides& overrides) {
  std::map<std::string, std::string> found;
  for (const auto& text : overrides) {
    if (const auto path = path_of(text); path != "run.dir") found[path] = text;
  }
  return found;
}

std::set<std::string> paths_apart(const std::vector<std::map<std::string, std::string>>& runs) {
  std::set<std::string> apart;
  for (const auto& run : runs) {
    for (const auto& one : run) {
      const auto same = [&](const auto& other) { return std::ranges::find(other, one) != other.end(); };
      if (!std::ranges::all_of(runs, same)) apart.insert(one.first);
    }
  }
  return apart;
}

std::string shortened(const std::string& text, const std::string& path, const std::set<std::string>& paths) {
  const auto ends_alike = [&](const std::string& other) { return last_name(other) == last_name(path); };
  const auto name = std::ranges::count_if(paths, ends_alike) > 1 ? path : last_name(path);
  const auto equals = text.find('=');
  return equals == std::string::npos ? "~" + name : name + text.substr(equals);
}

}  // namespace

Overrides read_overrides(const std::filesystem::path& run) {
  Overrides overrides;
  std::istringstream stream(read_below(run, "overrides.txt"));
  for (std::string line; std::getline(stream, line);) overrides.push_back(line);
  return overrides;
}

std::vector<std::string> overrides_apart(const std::vector<Overrides>& runs) {
  std::vector<std::map<std::string, std::string>> known;
  for (const auto& overrides : runs) known.push_back(by_path(overrides));
  const auto apart = paths_apart(known);
  std::vector<std::string> texts;
  for (size_t i = 0; i < runs.size(); ++i) {
    auto& text = texts.emplace_back();
    for (const auto& one : runs[i]) {
      const auto path = path_of(one);
      if (apart.contains(path) && known[i].at(path) == one)
        text += (text.empty() ? "" : " ") + shortened(one, path, apart);
    }
  }
  return texts;
}

}  // namespace ddprun
