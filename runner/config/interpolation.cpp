// SPDX-License-Identifier: MIT
#include "config/interpolation.h"

#include "config/rivals.h"
#include "config/schema.h"
#include "config/secrets.h"

#include <ddprun/options.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <unordered_set>
#include <utility>

namespace ddprun {
namespace {

// Limits texts and chains: ${a} of ${b}${b} of ${c}${c} doubles at each step, and a chain of references is a recursion.
constexpr size_t kMaxChain = 64;
constexpr size_t kMaxSuggestions = 20;  // each is compared with every key
constexpr size_t kMaxCopiedBytes = size_t{1} << 20;

std::string time_text(const std::string& format, std::time_t now) {
  std::tm local{};
  localtime_r(&now, &local);
  std::string text(256, '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &local));
  if (text.empty()) throw BadReference{"expected a format of strftime such as ${now:%Y-%m-%d}"};
  return text;
}

Value environment_value(const std::string& argument) {
  const auto comma = argument.find(',');
  const auto name = argument.substr(0, comma);
  const char* found = std::getenv(name.c_str());
  if (found) return *found ? plain_scalar(found, {}) : Value::scalar("", {}, true);
  if (comma != argument.npos) return plain_scalar(argument.substr(comma + 1), {});
  throw BadReference{"the environment has no " + name + "; give a default with ${env:" + name + ",default}"};
}

size_t bytes_of(const Value& value) {
  size_t bytes = value.text().size() + 1;
  for (const auto& item : value.items()) bytes += bytes_of(item);
  for (const auto& entry : value.entries()) bytes += entry.key.size() + bytes_of(entry.value);
  return bytes;
}

bool is_of_environment(const TextPart& part) { return part.is_reference && part.text.starts_with("env:"); }

// Refuses secrets in ${env:}: their values would be written wherever the experiment goes.
void require_no_secrets(const std::vector<TextPart>& parts, const std::string& path) {
  const auto key = path.substr(path.rfind('.') + 1);
  for (const auto& part : parts) {
    if (!is_of_environment(part)) continue;
    const auto name = part.text.substr(4, part.text.find(',') - 4);
    if (!names_a_secret(name) && !names_a_secret(key)) continue;
    throw BadReference{
        "${env:" + name +
        "} looks like a secret, and its value would be written to config.yaml, reports and loggers. In an option of a "
        "plugin write ${secret:" +
        name + "}; if it is not a secret, rename it"};
  }
}

void require_no_password(const Value& value) {
  if (!value.is_scalar() || !holds_password(value.text())) return;
  throw BadReference{
      "the environment gives a URL with a password in it, which would be written to config.yaml, reports and loggers; "
      "put the password into a variable of its own, and write https://user:${secret:NAME}@host"};
}

class Interpolator {
 public:
  Interpolator(Value& root, Problems& problems) : root_(root), problems_(problems) {}

  void resolve(Value& value, const std::string& path) {
    if (done_.contains(&value)) return;
    active_.insert(&value);
    for (auto& entry : value.entries()) resolve(entry.value, path.empty() ? entry.key : path + "." + entry.key);
    for (size_t i = 0; i < value.items().size(); ++i) resolve(value.items()[i], path + "[" + std::to_string(i) + "]");
    if (value.is_scalar()) expand(value, path);
    active_.erase(&value);
    done_.insert(&value);
  }

  const std::vector<std::string>& failed() const { return failed_; }

 private:
  void expand(Value& value, const std::string& path) {
    try {
      const auto parts = split_references(value.text());
      const bool whole = parts.size() == 1 && parts[0].is_reference;
      require_no_secrets(parts, path);
      auto result = whole ? evaluate(parts[0].text) : Value::scalar(joined(parts), {}, value.quoted());
      if (std::ranges::any_of(parts, is_of_environment)) require_no_password(result);
      result.set_origin(value.origin());
      value = std::move(result);
      mark_done(value);
    } catch (const BadReference& bad) {
      if (!bad.text.empty()) problems_.push_back(problem_line(value.origin(), path, bad.text));
      failed_.push_back(value.origin().text());
    }
  }

  // Marks a copied value as resolved; its literal ${ must stay.
  void mark_done(Value& value) {
    done_.insert(&value);
    for (auto& item : value.items()) mark_done(item);
    for (auto& entry : value.entries()) mark_done(entry.value);
  }

  std::string joined(const std::vector<TextPart>& parts) {
    std::string text;
    for (const auto& part : parts) {
      if (!part.is_reference) {
        text += part.text;
        continue;
      }
      const auto value = evaluate(part.text);
      if (!value.is_scalar())
        throw BadReference{"${" + part.text + "} is " + describe(value) + ", which cannot be a part of a text"};
      text += value.text();
    }
    return text;
  }

  Value evaluate(const std::string& reference) {
    const auto colon = reference.find(':');
    const auto argument = colon == reference.npos ? "" : reference.substr(colon + 1);
    if (reference.starts_with("env:")) return environment_value(argument);
    if (reference.starts_with("secret:")) return Value::scalar(secret_reference(argument));
    if (reference.starts_with("now:")) return Value::scalar(time_text(argument, now_), {}, true);
    if (colon != reference.npos) {
      throw BadReference{"${" + reference + "}: unknown function " + reference.substr(0, colon) +
                         "; known: env, now, secret"};
    }
    return copy_of(reference);
  }

  Value copy_of(const std::string& reference) {
    const auto path = parse_key_path(reference);
    if (!path) throw BadReference{"${" + reference + "}: expected a key such as ${trainer.max_epochs}"};
    if (chain_.size() >= kMaxChain)
      throw BadReference{"more than " + std::to_string(kMaxChain) + " references in a row"};
    chain_.push_back(reference);
    const auto* value = lookup(*path);
    chain_.pop_back();
    if (!value) {
      if (const auto why = why_no_default(root_, *path); !why.empty())
        throw BadReference{"${" + reference + "} " + why};
      if (const auto fallback = schema_.fallback(*path)) return plain_scalar(*fallback, {});
      throw BadReference{unknown(reference)};
    }
    copied_bytes_ += bytes_of(*value);
    if (copied_bytes_ > kMaxCopiedBytes) throw BadReference{"the references of this file expand to more than 1 MB"};
    return *value;
  }

  // Returns the resolved value at the path. Texts on the way are resolved too, since they may stand for the map that
  // holds the rest.
  const Value* lookup(const KeyPath& path) {
    auto* value = &root_;
    for (size_t depth = 0; depth < path.size(); ++depth) {
      value = child(*value, path[depth]);
      if (!value) return nullptr;
      if (value->is_scalar() || depth + 1 == path.size()) resolve_target(*value, path, depth);
    }
    return value;
  }

  void resolve_target(Value& value, const KeyPath& path, size_t depth) {
    if (active_.contains(&value)) throw BadReference{"a cycle of references: " + chain_text()};
    const auto failures = failed_.size();
    resolve(value, to_text({path.begin(), path.begin() + static_cast<std::ptrdiff_t>(depth) + 1}));
    if (failed_.size() > failures) throw BadReference{};
  }

  std::string chain_text() const {
    std::string text;
    for (const auto& reference : chain_) text += (text.empty() ? "${" : " -> ${") + reference + "}";
    return text;
  }

  std::string unknown(const std::string& reference) const {
    if (failed_.size() > kMaxSuggestions) return "${" + reference + "}: no such key";
    auto known = schema_.paths();
    for (const auto& [path, value] : all_values(root_)) known.push_back(path);
    std::erase_if(known, [&](const std::string& path) { return is_being_resolved(path); });  // would be cycles
    const auto near = nearest_name(reference, known);
    return "${" + reference + "}: no such key" + (near.empty() ? "" : "; did you mean ${" + near + "}?");
  }

  bool is_being_resolved(const std::string& name) const {
    const auto path = parse_key_path(name);
    return path && active_.contains(find_at(std::as_const(root_), *path));
  }

  Value& root_;
  Problems& problems_;
  Schema schema_;
  std::time_t now_ = std::time(nullptr);            // one time for the whole experiment
  std::unordered_set<const Value*> active_, done_;  // values never move: only their contents are replaced
  std::vector<std::string> chain_;                  // the references being followed
  std::vector<std::string> failed_;
  size_t copied_bytes_ = 0;
};

}  // namespace

std::vector<std::string> interpolate(Value& config, Problems& problems) {
  Interpolator interpolator(config, problems);
  interpolator.resolve(config, "");
  if (depth_of(config) > kMaxYamlDepth) {
    problems.push_back(
        problem_line(config.origin(), "",
                     "references nest the experiment deeper than " + std::to_string(kMaxYamlDepth) + " levels"));
  }
  return interpolator.failed();
}

namespace {

void add_literal(std::vector<TextPart>& parts, std::string_view text) {
  if (parts.empty() || parts.back().is_reference) parts.push_back({});
  parts.back().text += text;
}

}  // namespace

std::vector<TextPart> split_references(std::string_view text) {
  constexpr std::string_view kOpen = "${";
  std::vector<TextPart> parts;
  if (text.empty()) add_literal(parts, "");
  while (!text.empty()) {
    const auto open = text.find(kOpen);
    if (open == text.npos) {
      add_literal(parts, text);
      break;
    }
    const bool escaped = open > 0 && text[open - 1] == '\\';
    if (escaped) {
      const bool names_secret = text.substr(open).starts_with(kSecretOpen);  // unescaped when secrets are inserted
      add_literal(parts, text.substr(0, names_secret ? open : open - 1));
      add_literal(parts, kOpen);
      text.remove_prefix(open + kOpen.size());
      continue;
    }
    if (open > 0) add_literal(parts, text.substr(0, open));
    text.remove_prefix(open + kOpen.size());
    const auto close = text.find('}');
    const auto reference = text.substr(0, close);
    if (close == text.npos) throw BadReference{"${" + std::string(text) + ": the } is missing"};
    if (reference.find(kOpen) != reference.npos)
      throw BadReference{"references cannot be nested: ${" + std::string(text)};
    parts.push_back({std::string(reference), true});
    text.remove_prefix(close + 1);
  }
  return parts;
}

std::string escape_references(std::string text) {
  for (size_t at = 0; (at = text.find("${", at)) != text.npos; at += 3) text.insert(at, "\\");
  return text;
}

}  // namespace ddprun
