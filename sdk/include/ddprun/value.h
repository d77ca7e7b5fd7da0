// SPDX-License-Identifier: MIT
// A tree of configuration values, each with the place it was written at. What YAML text becomes after parsing, and what
// plugins read their options from (through Options, options.h). Scalars stay text: the reader decides on their type.
//
// A plain value type: copied deeply, owned by whoever holds it, used from one thread at a time.
#pragma once

#include <ddprun/api.h>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Where a value was written: a file with a 1-based line and column, or a source without lines ("command line",
// "default").
struct DDPRUN_API Origin {
  std::string source;
  int line = 0;
  int column = 0;

  // "mnist.yaml:12:5", or the source alone where there is no line.
  std::string text() const;
};

class DDPRUN_API Value {
 public:
  // What a value is.
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry;

  Value() = default;  // null
  // A value of each kind, with the place where it was written.
  static Value scalar(std::string text, Origin origin = {}, bool quoted = false);
  static Value list(Origin origin = {});
  static Value map(Origin origin = {});

  // Which kind it is.
  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_scalar() const { return kind_ == Kind::kScalar; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_map() const { return kind_ == Kind::kMap; }

  // The scalar's text as written. `quoted` tells "7" from 7: a quoted scalar is a string, never a number.
  const std::string& text() const { return text_; }
  bool quoted() const { return quoted_; }

  // A list's values in their order.
  const std::vector<Value>& items() const { return items_; }
  std::vector<Value>& items() { return items_; }

  // A map's entries in the order written; keys are unique. find() gives null where there is no such key.
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<Entry>& entries() { return entries_; }
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  Value& set(std::string_view key, Value value, Origin key_origin = {});  // replaces or appends; returns what it stored
  bool erase(std::string_view key);                                       // whether there was one

  // Where it was written.
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

// A key of a map, and its value.
struct Value::Entry {
  std::string key;
  Origin key_origin;
  Value value;
};

// "a map", "a list", "null", or the scalar's text in quotes: how error texts name what was found.
DDPRUN_API std::string describe(const Value& value);

// A path, or each of a list, made absolute. ~ is $HOME; a relative path lies below the folder of the file that it was
// written in, and below the current folder where it was written in none (the command line). An empty text names nothing
// and stays empty.
DDPRUN_API Value absolute_paths(Value value);

}  // namespace ddprun
