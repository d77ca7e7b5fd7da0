// SPDX-License-Identifier: MIT
// A plugin's options in a test: {{"hidden", 64}, {"betas", {0.9, 0.999}}, {"file", "a.txt"}, {"amsgrad", true}}.
#pragma once

#include <ddprun/options.h>
#include <ddprun/value.h>

#include <concepts>
#include <initializer_list>
#include <string>

namespace ddprun::check {

// One option's value. A string stays a string even if it looks like a number, as if quoted in YAML.
class Setting {
 public:
  // Implicit, so that a value stands for itself.
  Setting(bool value);
  Setting(double value);
  Setting(const char* text);
  Setting(const std::string& text);
  Setting(std::initializer_list<Setting> list);
  Setting(Value value) : value_(std::move(value)) {}  // anything else that YAML can express
  template <std::integral Number>
  Setting(Number number) : value_(Value::scalar(std::to_string(number))) {}

  // Returns the value as YAML would give it.
  const Value& value() const { return value_; }

 private:
  Value value_;
};

class Settings {
 public:
  // An option with its value.
  struct Entry {
    std::string name;
    Setting value;
  };

  Settings() = default;
  // If a name is given twice, the last one counts.
  Settings(std::initializer_list<Entry> entries);

  // Returns the argument of a plugin's constructor. `path` stands before the options' names in messages: "model".
  Options options(const std::string& path) const { return Options(values_, path); }

 private:
  Value values_ = Value::map();
};

}  // namespace ddprun::check
