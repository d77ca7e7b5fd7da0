// SPDX-License-Identifier: MIT
#include "strict_json.h"

#include <set>
#include <stdexcept>
#include <vector>

namespace ddprun {
namespace {

using nlohmann::json;

// Checks keys and depth only. (A json::parse() callback could do the same, but its cost grows with the square of an
// object's size.)
class Watch final : public nlohmann::json_sax<json> {
 public:
  explicit Watch(size_t most_depth) : most_depth_(most_depth) {}

  bool start_object(size_t) override { return enter(), true; }
  bool end_object() override { return open_.pop_back(), true; }
  bool start_array(size_t) override { return enter(), true; }
  bool end_array() override { return open_.pop_back(), true; }

  bool key(string_t& name) override {
    if (!open_.back().insert(name).second) throw std::runtime_error("the key " + json(name).dump() + " appears twice");
    return true;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const json::exception&) override {
    return false;
  }  // json::parse() reports it

 private:
  void enter() {
    if (open_.size() == most_depth_)
      throw std::runtime_error("it nests deeper than " + std::to_string(most_depth_) + " levels");
    open_.emplace_back();
  }

  size_t most_depth_;
  std::vector<std::set<std::string>> open_;  // the objects and lists that enclose this place, with their keys so far
};

}  // namespace

json parse_strict_json(std::string_view text, size_t most_depth) {
  // The library takes a zero for the end and skips a byte order mark.
  if (text.find('\0') != text.npos) throw std::runtime_error("it holds a byte 0");
  if (text.starts_with("\xEF\xBB\xBF")) throw std::runtime_error("it begins with a mark of the byte order");
  Watch watch(most_depth);
  json::sax_parse(text, &watch);
  return json::parse(text);
}

json parse_strict_msgpack(std::string_view bytes, size_t most_depth) {
  Watch watch(most_depth);
  json::sax_parse(bytes, &watch, json::input_format_t::msgpack);
  return json::from_msgpack(bytes);
}

uint64_t to_count(const json& value) {
  if (!value.is_number_unsigned()) throw std::runtime_error("found " + describe(value) + " instead of a count");
  const auto count = value.get<uint64_t>();
  if (count > INT64_MAX) throw std::runtime_error(std::to_string(count) + " is out of range");
  return count;
}

std::string describe(const json& value) {
  if (value.is_number()) return value.dump();
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "a text";
  return value.is_null() ? "null" : "a truth value";
}

std::vector<std::string> class_names_in(std::string_view json) {
  const std::string expected = "expected a list of the classes' names";
  std::vector<std::string> names;
  try {
    parse_strict_json(json).get_to(names);
  } catch (const nlohmann::json::type_error&) {
    throw std::runtime_error(expected + ", each in quotes");
  } catch (const std::exception& error) {
    throw std::runtime_error(expected + ": " + error.what());
  }
  if (names.empty()) throw std::runtime_error(expected + ", found an empty one");
  return names;
}

}  // namespace ddprun
