// SPDX-License-Identifier: MIT
#include <ddprun/options.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

namespace ddprun {
namespace {

using Path = std::filesystem::path;

template <class T>
using ElementOf = detail::Element<T>;
template <class T>
constexpr bool kIsList = !std::is_same_v<T, typename ElementOf<T>::type>;

template <class T>
std::string type_name() {
  if constexpr (kIsList<T>) return "list of " + type_name<typename ElementOf<T>::type>();
  if constexpr (std::is_same_v<T, bool>) return "bool";
  if constexpr (std::is_same_v<T, int64_t>) return "int";
  if constexpr (std::is_same_v<T, double>) return "float";
  if constexpr (std::is_same_v<T, Path>) return "path";
  return "string";
}

// Returns whether the text is a whole number that begins with 0: 8 or 10 for 010, depending on the version of YAML.
bool is_octal_or_decimal(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text.find_first_not_of("0123456789") == text.npos;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  if (is_octal_or_decimal(text)) return std::nullopt;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  Number number{};
  const auto end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return number;
}

// Prints as few digits as it takes to read the same number back.
std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class T>
std::string to_text(const T& value) {
  if constexpr (kIsList<T>) {
    std::string text = "[";
    for (size_t i = 0; i < value.size(); ++i) text += (i ? ", " : "") + to_text(value[i]);
    return text + "]";
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, Path>) {
    return value;
  } else {
    if constexpr (std::is_same_v<T, double>) {
      if (std::isnan(value)) return "";  // NaN stands for no default
    }
    std::ostringstream text;
    text << value;
    if constexpr (std::is_same_v<T, double>) {
      if (parse_number<double>(text.str()) != value) return shortest(value);
    }
    return text.str();
  }
}

template <class T>
std::string range_text(const Range<T>& range) {
  const bool low = range.min != std::numeric_limits<T>::lowest();
  const bool high = range.max != std::numeric_limits<T>::max();
  if (low && high) return to_text(range.min) + " .. " + to_text(range.max);
  if (low) return ">= " + to_text(range.min);
  if (high) return "<= " + to_text(range.max);
  return "";
}

// Reads a word of YAML 1.2's core schema.
std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

template <class T>
std::optional<T> parse_scalar(const Value& value) {
  if (!value.is_scalar()) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, Path>) return value.text();
  if (value.quoted()) return std::nullopt;
  if constexpr (std::is_same_v<T, bool>) {
    return parse_bool(value.text());
  } else if constexpr (std::is_arithmetic_v<T>) {
    const auto number = parse_number<T>(value.text());
    if constexpr (std::is_same_v<T, double>) {
      if (number && !std::isfinite(*number)) return std::nullopt;
    }
    return number;
  }
  return std::nullopt;
}

template <class T>
std::optional<T> parse(const Value& value) {
  if constexpr (kIsList<T>) {
    if constexpr (std::is_same_v<T, std::vector<Path>>) {
      if (value.is_scalar()) return T{value.text()};
    }
    if (!value.is_list()) return std::nullopt;
    T list;
    for (const auto& item : value.items()) {
      const auto element = parse_scalar<typename ElementOf<T>::type>(item);
      if (!element) return std::nullopt;
      list.push_back(*element);
    }
    return list;
  } else {
    return parse_scalar<T>(value);
  }
}

// Returns what to write in place of a value that means a T to other readers of YAML, or to people.
template <class T>
std::string remedy(const Value& value) {
  const auto& text = value.text();
  if (!value.is_scalar()) return "";
  if constexpr (std::is_same_v<T, bool>) {
    std::string word;
    for (const char c : text) word += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 0x20 : c);
    const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
      return std::ranges::find(words, word) != words.end();
    };
    const auto quotes = value.quoted() && parse_bool(text) ? " without quotes" : "";
    if (is_one_of({"true", "yes", "on", "y", "1"})) return std::string("; write true") + quotes;
    if (is_one_of({"false", "no", "off", "n", "0"})) return std::string("; write false") + quotes;
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (is_octal_or_decimal(text)) return "; write it without the leading 0, with which some readers take it for octal";
  }
  return "";
}

// Picks what to show of a value that is not a T: for a list, the first item that does not fit.
template <class T>
std::string mismatch(const Value& value) {
  if constexpr (kIsList<T>) {
    for (size_t i = 0; value.is_list() && i < value.items().size(); ++i) {
      const auto& item = value.items()[i];
      using Item = typename ElementOf<T>::type;
      if (!parse_scalar<Item>(item)) return describe(item) + " at index " + std::to_string(i) + remedy<Item>(item);
    }
  }
  return describe(value) + remedy<T>(value);
}

template <class T>
bool within(const T& value, const RangeOf<T>& range) {
  if constexpr (kIsList<T>) {
    return std::ranges::all_of(value,
                               [&](const auto& element) { return range.min <= element && element <= range.max; });
  } else {
    return range.min <= value && value <= range.max;
  }
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Options::Options(Value values, std::string path) : values_(std::move(values)), path_(std::move(path)) {
  if (values_.is_null() || values_.is_map()) return;
  problems_.push_back(problem_line(values_.origin(), path_, "expected a map of options, found " + describe(values_)));
  values_ = Value();
}

const Value* Options::declare(OptionDeclaration declaration) {
  const auto* value = values_.find(declaration.name);
  if (declaration.required && !value) {
    problems_.push_back(
        problem_line(values_.origin(), path_of(declaration.name),
                     "missing; it has no default (" + declaration.type + ": " + declaration.help + ")"));
  }
  if (std::ranges::find(declared_, declaration.name, &OptionDeclaration::name) == declared_.end()) {
    declared_.push_back(std::move(declaration));
  }
  return value;
}

template <class T>
T Options::read(std::string_view name, const T* fallback, std::string_view help, const RangeOf<T>* range) {
  const auto* value = declare({.name = std::string(name),
                               .type = type_name<T>(),
                               .fallback = fallback ? to_text(*fallback) : "",
                               .range = range ? range_text(*range) : "",
                               .help = std::string(help),
                               .required = !fallback});
  const T otherwise = fallback ? *fallback : T{};
  if (!value) return otherwise;
  if constexpr (std::is_same_v<typename ElementOf<T>::type, Path>) {
    auto* path = values_.find(name);
    *path = absolute_paths(std::move(*path));
  }
  auto parsed = parse<T>(*value);
  if constexpr (std::is_same_v<T, std::vector<double>>) {
    const auto number = fallback && fallback->size() == 1 ? parse_scalar<double>(*value) : std::nullopt;
    if (number) parsed = T{*number};
  }
  if (!parsed) {
    reject(name, "expected " + type_name<T>() + ", found " + mismatch<T>(*value));
    return otherwise;
  }
  if (range && !within<T>(*parsed, *range)) {
    reject(name, "expected " + type_name<T>() + " " + range_text(*range) + ", found " + to_text(*parsed));
    return otherwise;
  }
  return *parsed;
}

template <class T>
T Options::get(std::string_view name, T fallback, std::string_view help) {
  return read<T>(name, &fallback, help, nullptr);
}

template <class T>
T Options::get(std::string_view name, T fallback, std::string_view help, RangeOf<T> range) {
  return read<T>(name, &fallback, help, &range);
}

template <class T>
T Options::require(std::string_view name, std::string_view help) {
  return read<T>(name, nullptr, help, nullptr);
}

#define DDPRUN_OPTION_TYPE(T)                                                   \
  template DDPRUN_API T Options::get<T>(std::string_view, T, std::string_view); \
  template DDPRUN_API T Options::require<T>(std::string_view, std::string_view);
#define DDPRUN_RANGED_OPTION_TYPE(T) \
  DDPRUN_OPTION_TYPE(T)              \
  template DDPRUN_API T Options::get<T>(std::string_view, T, std::string_view, RangeOf<T>);
DDPRUN_OPTION_TYPE(bool)
DDPRUN_OPTION_TYPE(std::string)
DDPRUN_OPTION_TYPE(std::vector<std::string>)
DDPRUN_OPTION_TYPE(Path)
DDPRUN_OPTION_TYPE(std::vector<Path>)
DDPRUN_RANGED_OPTION_TYPE(int64_t)
DDPRUN_RANGED_OPTION_TYPE(double)
DDPRUN_RANGED_OPTION_TYPE(std::vector<int64_t>)
DDPRUN_RANGED_OPTION_TYPE(std::vector<double>)

std::string Options::choose(std::string_view name, std::string_view fallback,
                            std::initializer_list<std::string_view> choices, std::string_view help) {
  std::string type;
  for (const auto choice : choices) type += (type.empty() ? "" : " | ") + std::string(choice);
  const auto* value =
      declare({.name = std::string(name), .type = type, .fallback = std::string(fallback), .help = std::string(help)});
  if (!value) return std::string(fallback);
  if (value->is_scalar() && std::ranges::find(choices, value->text()) != choices.end()) return value->text();
  // Short words are near to anything: "gpu" is not a typo for "cpu".
  const auto near = value->text().size() > 3 ? nearest_name(value->text(), {choices.begin(), choices.end()}) : "";
  reject(name,
         "expected " + type + ", found " + describe(*value) + (near.empty() ? "" : "; did you mean " + near + "?"));
  return std::string(fallback);
}

Value Options::subtree(std::string_view name, std::string_view help, std::string_view type, bool required) {
  const auto* value =
      declare({.name = std::string(name), .type = std::string(type), .help = std::string(help), .required = required});
  return value ? *value : Value();
}

std::string Options::path_of(std::string_view name) const {
  return path_ + (path_.empty() ? "" : ".") + std::string(name);
}

bool Options::has(std::string_view name) const { return values_.find(name) != nullptr; }

void Options::reject(std::string_view name, std::string_view problem) {
  const auto* value = values_.find(name);
  problems_.push_back(problem_line(value ? value->origin() : values_.origin(), path_of(name), problem));
}

std::vector<std::string> Options::problems() const {
  auto all = problems_;
  std::vector<std::string> known;
  for (const auto& declaration : declared_) known.push_back(declaration.name);
  std::ranges::sort(known);
  for (const auto& entry : values_.entries()) {
    if (std::ranges::find(known, entry.key) != known.end()) continue;
    const auto near = nearest_name(entry.key, known);
    const auto hint = near.empty() ? "" : " did you mean " + near + "?";
    constexpr size_t kManyKeys = 24;  // beyond that, the nearest name says more than the list
    const auto options = known.empty()                               ? " it takes no options"
                         : known.size() > kManyKeys && !near.empty() ? std::string()
                                                                     : " known: " + join(known);
    all.push_back(problem_line(entry.key_origin, path_of(entry.key), "unknown key;" + hint + options));
  }
  return all;
}

}  // namespace ddprun
