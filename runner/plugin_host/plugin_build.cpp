// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_build.h"

#include "base/log.h"
#include "base/private_folder.h"
#include "base/program.h"
#include "base/run_files.h"
#include "plugin_host/plugin_file.h"

#include <ddprun/error.h>
#include <ddprun/files.h>
#include <ddprun/options.h>
#include <ddprun/version.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

fs::path built_folder() {
  if (const auto cache = cache_folder(); !cache.empty()) return cache / "built";
  throw UserError("--build: neither HOME nor XDG_CACHE_HOME says where to keep builds");
}

// Reads share/ddprun/plugin_command, which CMake writes: one word per line, {prefix} for where this program is
// installed, {source} for the source file. The first word is the compiler.
std::vector<std::string> compile_command(const fs::path& source) {
  const auto prefix = own_program().parent_path().parent_path();
  std::ifstream file(prefix / "share/ddprun/plugin_command");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word);) {
    for (size_t at; (at = word.find("{prefix}")) != std::string::npos;) word.replace(at, 8, prefix.string());
    words.push_back(word == "{source}" ? source.string() : word);
  }
  if (words.empty())
    throw UserError("--build: " + (prefix / "share/ddprun/plugin_command").string() + " is missing: reinstall ddprun");
  if (const char* compiler = std::getenv("CXX"); compiler && *compiler) words[0] = compiler;
  if (!fs::exists(words[0]) && !has_program(words[0]))
    throw UserError("--build: there is no compiler " + words[0] +
                    "; install g++ 12 or newer, or name another one in $CXX");
  return words;
}

// Returns the files that a compilation has read, from the "target: file file \" that -MMD writes; a space in a name is
// "\ ".
std::vector<fs::path> dependencies_in(const fs::path& file) {
  const auto text = content_of(file);
  std::vector<fs::path> files;
  std::string word;
  for (size_t i = text.find(": ") + 1; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\' && i + 1 < text.size();
    if (escaped && text[i + 1] == ' ') {
      word += text[++i];
    } else if (std::isspace(static_cast<unsigned char>(text[i])) || (escaped && text[i + 1] == '\n')) {
      if (!word.empty()) files.emplace_back(std::exchange(word, ""));
    } else {
      word += text[i];
    }
  }
  return files;
}

// Returns the name of a build: the digest of all it is made of but the system's headers, for which ddprun's version
// stands.
std::string key_of(const std::vector<std::string>& command, const std::vector<fs::path>& sources) {
  Sha256 digest;
  const auto add = [&digest](const std::string& text) {
    const auto size = std::to_string(text.size()) + ":";
    digest.update(size.data(), size.size());
    digest.update(text.data(), text.size());
  };
  add(DDPRUN_VERSION);
  for (const auto& word : command) add(word);
  for (const auto& source : sources) {
    add(source.string());
    add(content_of(source));
  }
  return digest.hex().substr(0, 32);
}

// Returns the files that the last build of the source of this name was made of.
std::vector<fs::path> known_sources(const fs::path& list, const fs::path& source) {
  std::istringstream lines(content_of(list));
  std::vector<fs::path> files;
  for (std::string line; std::getline(lines, line);) files.emplace_back(line);
  return files.empty() ? std::vector{source} : files;
}

void compile(const fs::path& source, std::vector<std::string> command, const fs::path& plugin, const fs::path& list) {
  for (const auto& word : {std::string("-MMD"), std::string("-MF"), list.string(), std::string("-o"), plugin.string()})
    command.push_back(word);
  log::info("building " + source.filename().string());
  const auto end = run_program(command);
  if (end.exit_code != 0 && end.output.empty())
    throw UserError(source.string() + " does not compile: " + command[0] + " prints nothing and ends with exit code " +
                    std::to_string(end.exit_code));
  if (end.exit_code != 0) throw UserError(source.string() + " does not compile:\n" + errors_of_compiler(end.output));
  const auto info = read_plugin_file(plugin);
  if (!info.problem.empty()) throw UserError(source.string() + " compiles, but cannot be used: " + info.problem);
}

// Moves the build to its place, unless another process has been faster.
void keep(const fs::path& built, const fs::path& place) {
  std::error_code error;
  fs::rename(built, place, error);
  if (error && !fs::exists(place))
    throw UserError("--build: " + place.string() + " cannot be written: " + error.message());
}

// The compiler would take a file with another extension for one of the linker's.
void check_source(const fs::path& source, const std::string& given) {
  const auto ending = source.extension();
  if (!fs::exists(source)) throw UserError("--build " + given + ": there is no such file");
  if (!fs::is_regular_file(source)) throw UserError("--build " + given + ": it is not a file");
  if (ending != ".cpp" && ending != ".cc" && ending != ".cxx")
    throw UserError("--build " + given + ": expected a C++ source, a file whose name ends in .cpp, .cc or .cxx");
}

fs::path plugin_in(const fs::path& folder, const fs::path& source) {
  return folder / source.filename().replace_extension(".so");
}

fs::path build_plugin(const std::string& given) {
  const auto source = fs::absolute(given).lexically_normal();
  check_source(source, given);
  const auto folder = built_folder();
  const auto command = compile_command(source);
  const auto list = folder / (key_of(command, {}) + ".sources");
  const auto place = folder / key_of(command, known_sources(list, source));
  if (fs::exists(place)) return place;

  std::error_code error;
  fs::create_directories(folder, error);
  const PrivateFolder workshop(folder);
  const auto result = workshop.path() / "result";
  fs::create_directory(result);
  compile(source, command, plugin_in(result, source), workshop.path() / "sources");
  fs::copy_file(source, result / source.filename(),
                error);  // for those who read a run: the plugin works without it
  const auto sources = dependencies_in(workshop.path() / "sources");
  std::string lines;
  for (const auto& file : sources) lines += file.string() + "\n";
  replace_file(list, lines);
  const auto new_place = folder / key_of(command, sources);
  keep(result, new_place);
  return new_place;
}

}  // namespace

std::vector<fs::path> build_plugins(const std::vector<std::string>& sources) {
  std::vector<fs::path> folders;
  std::map<std::string, std::string> makers;  // of each plugin, by kind and name
  for (const auto& source : sources) {
    const auto folder = build_plugin(source);
    if (std::ranges::find(folders, folder) != folders.end()) continue;
    folders.push_back(folder);
    const auto info = read_plugin_file(plugin_in(folder, source));
    const auto [maker, is_new] = makers.emplace(info.kind + " " + info.name, source);
    if (!is_new)
      throw UserError("--build " + maker->second + " and --build " + source + " both define the " + maker->first +
                      ": register one of them under another name");
  }
  return folders;
}

namespace {

constexpr size_t kMostErrors = 5;

bool has(const std::string& line, const char* text) { return line.find(text) != std::string::npos; }

// Matches the line before an error in a template that names the plugin's line that leads there.
bool is_cause(const std::string& line) { return has(line, "required from here"); }

bool is_error(const std::string& line) {
  if (line.starts_with("collect2:")) return false;  // only says that there are others
  return has(line, " error: ") || has(line, "undefined reference to") || has(line, "cannot find -l");
}

// Matches "  12 |   return x;" and "     |          ^", which follow an error.
bool is_source_line(const std::string& line) {
  const auto bar = line.find_first_not_of(" 0123456789");
  return bar != std::string::npos && bar > 0 && line[bar] == '|';
}

// Returns DDPRUN_MODEL for a line like `DDPRUN_MODLE(MyNet, "my_net", "help")`, and "" if nothing is mistyped.
std::string meant_macro(const std::string& line) {
  static const std::vector<std::string> kMacros = {"DDPRUN_DATASET", "DDPRUN_LOGGER", "DDPRUN_MODEL",
                                                   "DDPRUN_OPTIMIZER"};
  const auto begin = line.find("DDPRUN_"), end = line.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", begin);
  if (begin == line.npos || end == line.npos) return "";
  const auto word = line.substr(begin, end - begin);
  const auto near = nearest_name(word, kMacros);
  return near == word ? "" : near;
}

}  // namespace

std::string errors_of_compiler(const std::string& output) {
  std::istringstream lines(output);
  std::string text;
  std::string cause;
  std::string meant;
  std::set<std::string> seen;
  bool shown = false;
  for (std::string line; std::getline(lines, line);) {
    if (is_cause(line)) {
      cause = line + "\n";
      shown = false;
    } else if (is_error(line)) {
      shown = seen.size() < kMostErrors && seen.insert(line).second;
      line = std::exchange(cause, "") + line;
    } else if (!is_source_line(line)) {
      shown = false;
      if (has(line, " warning: ")) cause.clear();  // it led to the warning
    }
    if (!shown) continue;
    text += (text.empty() ? "" : "\n") + line;
    if (meant.empty()) meant = meant_macro(line);
  }
  if (!meant.empty()) text += "\ndid you mean " + meant + "?";
  return text.empty() ? output : text;
}

}  // namespace ddprun
