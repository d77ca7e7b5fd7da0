// SPDX-License-Identifier: MIT
// A plugin's options as a test writes them: {{"hidden", 64}, {"betas", {0.9, 0.999}}, {"file", "a.txt"}, {"amsgrad",
// true}}.
#pragma once

#include <ddprun/options.h>
#include <ddprun/value.h>

#include <concepts>
#include <initializer_list>
#include <string>

namespace ddprun::check {

// One option's value. A text is one even where it looks like a number, as in quotes in YAML.
class Setting {
 public:
  // Implicit, so that a value stands for itself.
  Setting(bool value);
  Setting(double value);
  Setting(const char* text);
  Setting(const std::string& text);
  Setting(std::initializer_list<Setting> list);
  Setting(Value value) : value_(std::move(value)) {}  // anything else that YAML can say
  template <std::integral Number>
  Setting(Number number) : value_(Value::scalar(std::to_string(number))) {}

  // As YAML would give it.
  const Value& value() const { return value_; }

 private:
  Value value_;
};

class Settings {
 public:
  // One option by its name.
  struct Entry {
    std::string name;
    Setting value;
  };

  Settings() = default;
  // Of a name that stands twice the last counts.
  Settings(std::initializer_list<Entry> entries);

  // What a plugin's constructor takes. `path` stands before the options' names in texts: "model".
  Options options(const std::string& path) const { return Options(values_, path); }

 private:
  Value values_ = Value::map();
};

}  // namespace ddprun::check
