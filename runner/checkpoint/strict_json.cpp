// SPDX-License-Identifier: MIT
#include "checkpoint/strict_json.h"

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using nlohmann::json;

// Looks at the keys alone. (A callback of json::parse() could do the same, at a cost that grows with the square of an object's
// size.)
class KeyWatch final : public nlohmann::json_sax<json> {
 public:
  bool start_object(size_t) override { return keys_of_open_objects_.emplace_back(), true; }
  bool end_object() override { return keys_of_open_objects_.pop_back(), true; }

  bool key(string_t& name) override {
    if (!keys_of_open_objects_.back().insert(name).second)
      throw std::runtime_error("the key " + json(name).dump() + " stands twice");
    return true;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const json::exception&) override {
    return false;
  }  // json::parse() tells it

 private:
  std::vector<std::set<std::string>> keys_of_open_objects_;
};

}  // namespace

json parse_strict_json(std::string_view text) {
  KeyWatch watch;
  json::sax_parse(text, &watch);
  return json::parse(text);
}

}  // namespace ddprun
