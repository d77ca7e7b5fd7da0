// SPDX-License-Identifier: MIT
// A tree of configuration values, each with the place it was written at: parsed YAML, from which plugins read their
// options (through Options, options.h). Scalars stay text: the reader decides on their type.
//
// A plain value type: copied deeply, not thread-safe.
#pragma once

#include <ddprun/api.h>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// The place a value was written at: a file with 1-based line and column, or a source without lines ("command line",
// "default").
struct DDPRUN_API Origin {
  std::string source;
  int line = 0;
  int column = 0;

  // Returns "mnist.yaml:12:5", or the source alone if there is no line.
  std::string text() const;
};

class DDPRUN_API Value {
 public:
  // What YAML can hold.
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry;

  Value() = default;  // null
  // Make a value of each kind, with the place where it was written.
  static Value scalar(std::string text, Origin origin = {}, bool quoted = false);
  static Value list(Origin origin = {});
  static Value map(Origin origin = {});

  // Return what this value is.
  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_scalar() const { return kind_ == Kind::kScalar; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_map() const { return kind_ == Kind::kMap; }

  // Returns the scalar's text as written. `quoted` distinguishes "7" from 7: a quoted scalar is a string, never a
  // number.
  const std::string& text() const { return text_; }
  bool quoted() const { return quoted_; }

  // Returns a list's values in order.
  const std::vector<Value>& items() const { return items_; }
  std::vector<Value>& items() { return items_; }

  // Return a map's entries in the order written; keys are unique. find() returns null if there is no such key.
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<Entry>& entries() { return entries_; }
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  Value& set(std::string_view key, Value value, Origin key_origin = {});  // replaces or appends; returns what it stored
  bool erase(std::string_view key);                                       // returns whether there was one

  // The place it was written at.
  const Origin& origin() const { return origin_; }
  void set_origin(Origin origin) { origin_ = std::move(origin); }

 private:
  Kind kind_ = Kind::kNull;
  bool quoted_ = false;
  std::string text_;
  std::vector<Value> items_;
  std::vector<Entry> entries_;
  Origin origin_;
};

// A key of a map, with its value.
struct Value::Entry {
  std::string key;
  Origin key_origin;
  Value value;
};

// Returns "a map", "a list", "null", or the scalar's text in quotes, to name in errors what was found.
DDPRUN_API std::string describe(const Value& value);

// Returns a line about a mistake, "mnist.yaml:7:12: model.hidden: text", without the parts that are empty.
DDPRUN_API std::string problem_line(const Origin& origin, std::string_view path, std::string_view text);

// Makes a path, or each of a list, absolute. ~ is $HOME; a relative path is taken from the folder of the file that it
// was written in, or from the current folder if it was written in none (the command line). An empty text names nothing
// and stays empty.
DDPRUN_API Value absolute_paths(Value value);

}  // namespace ddprun
