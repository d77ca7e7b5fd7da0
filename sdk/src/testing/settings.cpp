// SPDX-License-Identifier: MIT
#include <ddprun/testing/settings.h>

#include <charconv>

namespace ddprun::check {
namespace {

Value quoted(const std::string& text) { return Value::scalar(text, {}, /*quoted=*/true); }

}  // namespace

Setting::Setting(bool value) : value_(Value::scalar(value ? "true" : "false")) {}
Setting::Setting(const char* text) : value_(quoted(text)) {}
Setting::Setting(const std::string& text) : value_(quoted(text)) {}

Setting::Setting(double value) {
  char text[32];
  value_ = Value::scalar({text, std::to_chars(text, text + sizeof text, value).ptr});
}

Setting::Setting(std::initializer_list<Setting> list) : value_(Value::list()) {
  for (const auto& item : list) value_.items().push_back(item.value());
}

Settings::Settings(std::initializer_list<Entry> entries) {
  for (const auto& entry : entries) values_.set(entry.name, entry.value.value());
}

}  // namespace ddprun::check
