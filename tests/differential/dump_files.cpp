// SPDX-License-Identifier: MIT
// dump_files: what our readers of foreign files make of a file, for a test that reads the same file with another
// library.
//
// Each line of standard input names a reader, a file, and names of tensors where the reader takes them, between tabs.
// It is answered by one line of JSON: {"value": what was read}, or {"error": what the reader shows the user}.
#include "config/compose.h"
#include "config/yaml_reader.h"
#include "dump_pictures.h"
#include "npy_file.h"
#include "safetensors_file.h"

#include <ddprun/error.h>
#include <ddprun/files.h>
#include <ddprun/options.h>
#include <ddprun/safetensors.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

namespace ddprun {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

Json to_json(const arrays::StoredArray& array) {
  const auto bytes = byte_count(array.shape, array.dtype).value();
  return {{"dtype", *dtype_name(array.dtype)}, {"shape", array.shape}, {"data", to_hex(array.bytes.get(), bytes)}};
}

Json dataset_tensors(const Words& words) {
  const Words names(words.begin() + 2, words.end());
  const auto found = arrays::read_safetensors(map_file(words[1]), names);
  Json tensors = Json::object();
  for (size_t i = 0; i < names.size(); ++i) tensors[names[i]] = to_json(found[i]);
  return tensors;
}

Json to_json(const TensorDict& tensors) {
  Json shown = Json::object();
  for (const auto& [name, tensor] : tensors) {
    const auto values = tensor.contiguous();
    shown[name] = {{"dtype", *dtype_name(tensor.scalar_type())},
                   {"shape", tensor.sizes().vec()},
                   {"data", to_hex(static_cast<const uint8_t*>(values.const_data_ptr()), values.nbytes())}};
  }
  return shown;
}

// What an option of this type gets from the value; null where that is a mistake.
template <class T>
Json option(const Value& value) {
  auto map = Value::map();
  map.set("x", value);
  Options options(std::move(map), "");
  const auto read = options.get<T>("x", T{}, "");
  return options.problems().empty() ? Json(read) : Json();
}

Json to_json(const Value& value) {
  if (value.is_null()) return nullptr;
  if (value.is_scalar() && value.quoted()) return {{"quoted", value.text()}};
  if (value.is_scalar())
    return {{"plain", value.text()},
            {"bool", option<bool>(value)},
            {"int", option<int64_t>(value)},
            {"float", option<double>(value)}};
  auto parts = Json::array();
  for (const auto& item : value.items()) parts.push_back(to_json(item));
  if (value.is_list()) return parts;
  for (const auto& entry : value.entries()) parts.push_back({entry.key, to_json(entry.value)});
  return {{"map", parts}};
}

Json document(const std::string& file) {
  Problems problems;
  const auto value = read_yaml(file, problems);
  if (!problems.empty()) throw_problems(problems);
  return to_json(*value);
}

const std::map<std::string, std::function<Json(const Words&)>> kReaders = {
    {"npy", [](const Words& words) { return to_json(arrays::read_npy(map_file(words[1]))); }},
    {"dataset", dataset_tensors},
    {"weights", [](const Words& words) { return to_json(read_safetensors(words[1])); }},
    {"yaml", [](const Words& words) { return document(words[1]); }},
};

Json answer(const std::string& line) try {
  Words words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, '\t');) words.push_back(word);
  static const auto kPictureReaders = picture_readers();
  const auto& readers = kPictureReaders.contains(words.at(0)) ? kPictureReaders : kReaders;
  return {{"value", readers.at(words.at(0))(words)}};
} catch (const UserError& error) {
  return {{"error", error.what()}};
}

}  // namespace
}  // namespace ddprun

int main() try {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << ddprun::answer(line).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }
  return 0;
} catch (const std::exception& error) {  // whatever a reader throws that is no UserError is a bug of it
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
