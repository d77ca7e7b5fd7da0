// SPDX-License-Identifier: MIT
#include "report/flat_object.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

// Collects the direct members of the outermost object.
class Collector final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Collector(FlatObject& object) : object_(object) {}

  bool null() override { return number(std::nan("")); }
  bool boolean(bool) override { return depth_ > 0; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ == 1) object_.texts.emplace_back(std::move(key_), std::move(value));
    return depth_ > 0;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return ++depth_ > 0; }
  bool key(string_t& value) override {
    if (depth_ == 1) key_ = std::move(value);
    return true;
  }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return depth_++ > 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool number(double value) {
    if (depth_ == 1) object_.numbers.emplace_back(std::move(key_), value);
    return depth_ > 0;
  }

  FlatObject& object_;
  std::string key_;
  int depth_ = 0;
};

}  // namespace

std::optional<FlatObject> FlatObject::parse(std::string_view text) {
  FlatObject object;
  Collector collector(object);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &collector)) return std::nullopt;
  return object;
}

double FlatObject::number(std::string_view name, double fallback) const {
  const auto found = std::ranges::find(numbers, name, &std::pair<std::string, double>::first);
  return found == numbers.end() ? fallback : found->second;
}

int64_t FlatObject::integer(std::string_view name, int64_t fallback) const {
  constexpr double kMost = 9e15;  // beyond that, a double cannot tell integers apart
  const auto value = number(name, static_cast<double>(fallback));
  return std::abs(value) <= kMost ? static_cast<int64_t>(value) : fallback;
}

std::string_view FlatObject::text(std::string_view name) const {
  const auto found = std::ranges::find(texts, name, &std::pair<std::string, std::string>::first);
  return found == texts.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace ddprun
