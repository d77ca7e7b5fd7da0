// SPDX-License-Identifier: MIT
// The options of a plugin, or of a section of the experiment file. They are declared where they are read: that one call
// gives parsing, the range check, errors for unknown keys with the nearest known name, and the help of `ddprun plugins
// show`.
//
//   const auto hidden = options.get<int64_t>("hidden", 128, "units in the hidden layer", {.min = 1});
//
// A wrong value does not throw: it is noted and the default returned, so that one run reports all mistakes. The owner
// of the Options asks for problems() when the reader is done. Not thread-safe.
#pragma once

#include <ddprun/api.h>
#include <ddprun/value.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// A range that includes both min and max.
template <class T>
struct Range {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};

namespace detail {
template <class T>
struct Element {
  using type = T;
};
template <class T>
struct Element<std::vector<T>> {
  using type = T;
};
}  // namespace detail

// The range of a number, or of each number in a list.
template <class T>
using RangeOf = Range<typename detail::Element<T>::type>;

// One declared option, as text: what `ddprun plugins show` prints.
struct DDPRUN_API OptionDeclaration {
  std::string name;
  std::string type;      // "int", "float", "bool", "string", "path", "list of int", ... or the choices "sum | mean"
  std::string fallback;  // the default as text; empty if the option is required
  std::string range;     // ">= 1", "0 .. 1", or empty
  std::string help;
  bool required = false;
};

class DDPRUN_API Options {
 public:
  // `values` is a map or null; `path` stands before a key in error messages, such as "model" or "trainer".
  explicit Options(Value values, std::string path);

  // T is bool, int64_t, double, std::string, std::filesystem::path, or a std::vector of one of the last four. The range
  // applies to numbers, and to each element of a list of numbers. Paths are made absolute as by absolute_paths(); for a
  // list of paths, or one of doubles whose fallback has one, the user may write a single one.
  template <class T>
  T get(std::string_view name, T fallback, std::string_view help);
  template <class T>
  T get(std::string_view name, T fallback, std::string_view help, RangeOf<T> range);

  // Reads a required option.
  template <class T>
  T require(std::string_view name, std::string_view help);

  // Reads one of several words.
  std::string choose(std::string_view name, std::string_view fallback, std::initializer_list<std::string_view> choices,
                     std::string_view help);

  // Returns the raw value of an option whose reader needs the tree itself (a nested section), or null if it is absent.
  // `type` describes it in the help, and in the error if it is required.
  Value subtree(std::string_view name, std::string_view help, std::string_view type = "map", bool required = false);

  // Returns true if the user wrote this key.
  bool has(std::string_view name) const;

  // Reports a mistake that only the reader can see ("must divide inputs, 784"); the key's place and path are put before
  // the text.
  void reject(std::string_view name, std::string_view problem);

  // Returns all mistakes so far in the order found, plus an error for every key that nobody declared. Each is one full
  // line: "mnist.yaml:7:12: model.hiden: unknown key; did you mean hidden? known: classes, hidden, inputs".
  std::vector<std::string> problems() const;

  // Return what was declared so far, and the path that the constructor got.
  const std::vector<OptionDeclaration>& declared() const { return declared_; }
  const std::string& path() const { return path_; }

 private:
  template <class T>
  T read(std::string_view name, const T* fallback, std::string_view help, const RangeOf<T>* range);
  const Value* declare(OptionDeclaration declaration);
  std::string path_of(std::string_view name) const;

  Value values_;
  std::string path_;
  std::vector<OptionDeclaration> declared_;
  std::vector<std::string> problems_;
};

// Returns the known name nearest to a mistyped one (edit distance), or an empty string if none is near.
DDPRUN_API std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace ddprun
