// SPDX-License-Identifier: MIT
#include "config/secrets.h"

#include "base/log.h"
#include "config/compose.h"
#include "config/defaults_list.h"
#include "config/interpolation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace ddprun {
namespace {

constexpr size_t kMostBytes = 64 << 10;

bool is_variable(std::string_view name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) && std::ranges::all_of(name, fits);
}

std::string read_secret_file(const std::string& variable, const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad())
    throw BadReference{variable + " names the file " + file + ", which cannot be read"};
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kMostBytes)
    throw BadReference{variable + " names the file " + file + ", which is larger than 64 kB"};
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

std::string look_up(const std::string& name) {
  const auto variable = name + "_FILE";
  const char* value = std::getenv(name.c_str());
  const char* file = value ? nullptr : std::getenv(variable.c_str());
  if (!value && !file)
    throw BadReference{"the environment has no " + name + "; export it, or the name of a file that holds it as " +
                       variable + ", for every node that trains"};
  const auto secret = value ? std::string(value) : read_secret_file(variable, file);
  if (secret.empty()) throw BadReference{value ? name + " is empty" : "the file " + std::string(file) + " is empty"};
  log::hide(secret, secret_reference(name));
  return secret;
}

// Returns the text with each name replaced by what `replace` returns; \${secret:NAME} loses its backslash.
template <class Replace>
std::string replaced(std::string_view text, Replace&& replace) {
  std::string result;
  for (size_t open = 0; (open = text.find(kSecretOpen)) != text.npos;) {
    const bool escaped = open > 0 && text[open - 1] == '\\';
    result += text.substr(0, escaped ? open - 1 : open);
    text.remove_prefix(open + kSecretOpen.size());
    if (escaped) {
      result += kSecretOpen;
      continue;
    }
    const auto close = text.find('}');
    if (close == text.npos) throw BadReference{std::string(kSecretOpen) + std::string(text) + ": the } is missing"};
    result += replace(std::string(text.substr(0, close)));
    text.remove_prefix(close + 1);
  }
  return result += text;
}

bool has_secret(const std::string& text) {
  bool found = false;
  replaced(text, [&](const std::string& /*name*/) {
    found = true;
    return "";
  });
  return found;
}

// Calls visit(scalar, path) for each in the tree.
template <class Tree, class Visit>
void for_each_scalar(Tree& value, const std::string& path, Visit&& visit) {
  if (value.is_scalar()) visit(value, path);
  for (auto& entry : value.entries())
    for_each_scalar(entry.value, path.empty() ? entry.key : path + "." + entry.key, visit);
  for (size_t i = 0; i < value.items().size(); ++i)
    for_each_scalar(value.items()[i], path + "[" + std::to_string(i) + "]", visit);
}

// Returns whether the option is the plugin's own: loggers[0].url is; loggers[0].plugin and dataset.resident are the
// runner's.
bool is_plugins_own(const std::string& path) {
  const auto dot = path.find('.');
  if (dot == path.npos || path.substr(dot) == ".plugin" || path == "dataset.resident") return false;
  const auto section = path.substr(0, std::min(dot, path.find('[')));
  return section == "model" || section == "dataset" || section == "optimizer" || is_list_of_plugins(section);
}

// Reports a reference that cannot be resolved as a problem at its value's place.
template <class Action>
void note_bad_reference(const Value& value, const std::string& path, Problems& problems, Action&& action) try {
  action();
} catch (const BadReference& bad) {
  problems.push_back(problem_line(value.origin(), path, bad.text));
}

}  // namespace

bool names_a_secret(std::string_view name) {
  std::string text;
  std::ranges::transform(name, std::back_inserter(text), [](unsigned char c) { return std::tolower(c); });
  while (!text.empty() && (std::isdigit(static_cast<unsigned char>(text.back())) || text.back() == '_'))
    text.pop_back();
  constexpr std::array kAnywhere{"password", "passwd", "passphrase", "secret", "credential"};
  constexpr std::array kAtTheEnd{"token", "key"};
  constexpr std::array kWhereItIs{"_file", "_path", "_dir"};
  const auto ends = [&](const char* word) { return text.ends_with(word); };
  const auto holds = [&](const char* word) { return text.find(word) != text.npos; };
  if (std::ranges::any_of(kWhereItIs, ends)) return false;
  return std::ranges::any_of(kAnywhere, holds) || std::ranges::any_of(kAtTheEnd, ends);
}

bool holds_password(std::string_view value) {
  constexpr std::string_view kScheme = "://";
  const auto readable = replaced(value, [](const std::string& /*name*/) { return ""; });
  std::string_view text = readable;
  for (auto at = text.find(kScheme); at != text.npos; at = text.find(kScheme)) {
    text.remove_prefix(at + kScheme.size());
    const auto authority = text.substr(0, text.find_first_of("/?# "));
    const auto user = authority.substr(0, authority.rfind('@'));
    const auto colon = user.find(':');
    if (user.size() < authority.size() && colon != user.npos && colon + 1 < user.size()) return true;
  }
  return false;
}

std::string secret_reference(const std::string& name) {
  if (!is_variable(name))
    throw BadReference{std::string(kSecretOpen) + name +
                       "}: expected the name of an environment variable, as in ${secret:API_TOKEN}"};
  return std::string(kSecretOpen) + name + "}";
}

void check_secrets(const Value& config, Problems& problems) {
  for_each_scalar(config, "", [&](const Value& value, const std::string& path) {
    note_bad_reference(value, path, problems, [&] {
      if (has_secret(value.text()) && !is_plugins_own(path))
        throw BadReference{
            "a secret can be in options of the model, the dataset, the optimizer, the loggers and the callbacks alone: "
            "the rest of an experiment is written to files and messages"};
    });
  });
}

Value with_secrets(Value options, const std::string& path) {
  Problems problems;
  for_each_scalar(options, path, [&](Value& value, const std::string& where) {
    if (value.text().find(kSecretOpen) == std::string::npos) return;
    note_bad_reference(value, where, problems,
                       [&] { value = Value::scalar(replaced(value.text(), look_up), value.origin(), value.quoted()); });
  });
  if (!problems.empty()) throw_problems(problems);
  return options;
}

}  // namespace ddprun
