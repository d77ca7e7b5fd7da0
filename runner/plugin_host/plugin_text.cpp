// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_text.h"

#include "base/terminal.h"

#include <algorithm>

namespace ddprun {
namespace {

constexpr size_t kIndent = 6;
constexpr size_t kWidestDefault = 24;  // a longer one is printed below its option

bool lies_in(const std::filesystem::path& file, const std::filesystem::path& folder) {
  const auto below = file.lexically_normal().lexically_relative(folder.lexically_normal());
  return !below.empty() && *below.begin() != "..";
}

template <class Items, class Text>
size_t widest(const Items& items, const std::string& heading, Text text) {
  size_t width = heading.size();
  for (const auto& item : items) width = std::max(width, std::string(text(item)).size());
  return width;
}

std::string fallback_text(const OptionDeclaration& option) {
  if (option.required) return "(required)";
  return option.fallback.empty() ? (option.type == "string" || option.type == "path" ? "\"\"" : "-") : option.fallback;
}

bool is_wide(const OptionDeclaration& option) { return fallback_text(option).size() > kWidestDefault; }

std::string default_column(const OptionDeclaration& option) {
  return is_wide(option) ? "(below)" : fallback_text(option);
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string options_table(const std::vector<OptionDeclaration>& options) {
  const auto name = widest(options, "option", [](const auto& option) { return option.name; });
  const auto type = widest(options, "type", [](const auto& option) { return option.type; });
  const auto fallback = widest(options, "default", default_column);
  const auto row = [&](const auto& a, const auto& b, const auto& c, const auto& d) {
    return without_trailing_spaces("  " + padded(a, name) + "  " + padded(b, type) + "  " + padded(c, fallback) + "  " +
                                   d);
  };
  auto text = row("option", "type", "default", "range");
  for (const auto& option : options) {
    text += row(option.name, option.type, default_column(option), option.range) + paragraph(option.help, kIndent);
    if (is_wide(option)) text += paragraph("default: " + fallback_text(option), kIndent);
  }
  return text;
}

}  // namespace

std::string plugin_list_text(const std::vector<PluginInfo>& plugins, const std::filesystem::path& own_folder) {
  const auto kind = widest(plugins, "kind", [](const auto& info) { return info.kind; });
  const auto name = widest(plugins, "name", [](const auto& info) { return info.name; });
  const auto indent = kind + name + 4;
  std::string usable, flawed;
  for (const auto& info : plugins) {
    if (!info.problem.empty()) {
      flawed += "  " + info.file.string() + "\n" + paragraph(info.problem, kIndent);
      continue;
    }
    usable += without_trailing_spaces(padded(info.kind, kind) + "  " + padded(info.name, name) + "  " +
                                      wrapped(info.help, indent, indent));
    if (!lies_in(info.file, own_folder)) usable += std::string(indent, ' ') + info.file.string() + "\n";
  }
  const auto heading = padded("kind", kind) + "  " + padded("name", name) + "  help\n";
  std::string text = usable.empty() ? "no plugins found\n" : heading + usable;
  if (!flawed.empty()) text += "\nThese files cannot be used:\n" + flawed;
  return text;
}

std::string plugin_check_text(const PluginCheck& check) {
  const auto& info = check.info;
  auto text = info.file.string() + (info.name.empty() ? "" : ": " + info.kind + " " + info.name) + "\n";
  const auto add = [&text](const std::string& mark, const std::string& line) {
    text += "  " + mark + wrapped(line, 9, 9) + "\n";
  };
  for (const auto& fact : check.facts) add("ok     ", fact);
  for (const auto& problem : check.problems) add("wrong  ", problem);
  return text;
}

std::string plugin_page_text(const PluginDescription& description) {
  const auto& info = description.info;
  auto text = wrapped(info.name + ": " + info.help, 0, 2) + "\n\n";
  text += "  kind      " + info.kind + "\n  file      " + info.file.string() + "\n  built     " +
          wrapped("with ddprun SDK " + info.sdk_version + ", LibTorch " + info.torch_version + ", compiler " +
                      info.compiler,
                  12, 12) +
          "\n\n";
  text += description.options.empty() ? "  It takes no options.\n" : options_table(description.options);
  if (!description.problem.empty()) {
    text += '\n';
    text += paragraph("There may be more options: " + description.problem, 2);
  }
  return text;
}

}  // namespace ddprun
