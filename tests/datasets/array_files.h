// SPDX-License-Identifier: MIT
// .npy and .safetensors files for the tests, right and wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace ddprun::test {

// The bytes of these values, one after the other.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// `bytes` little-endian bytes of a number.
inline std::string little_endian(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

// What numpy.save writes before the values, version 1.0.
inline std::string npy_header(const std::string& dictionary) {
  std::string text = dictionary;
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + little_endian(text.size(), 2) + text;
}

inline std::string npy_file(const std::string& descr, const std::string& shape, const std::string& values) {
  return npy_header("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }") + values;
}

inline std::string safetensors_file(const std::string& header, const std::string& values) {
  return little_endian(header.size(), 8) + header + values;
}

// A tensor's entry of the header; `bytes` is {begin, end}.
inline std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, size_t begin,
                         size_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

// Inputs of `width` float32 values and one int64 class each: input value i of all is i, target n is n % classes.
inline std::string sample_file(int64_t samples, int64_t width = 3, int64_t classes = 4) {
  std::vector<float> input;
  std::vector<int64_t> target;
  for (int64_t i = 0; i < samples * width; ++i) input.push_back(static_cast<float>(i));
  for (int64_t n = 0; n < samples; ++n) target.push_back(n % classes);
  const auto count = std::to_string(samples);
  const size_t end = input.size() * 4;
  return safetensors_file("{" + entry("input", "F32", "[" + count + "," + std::to_string(width) + "]", 0, end) + "," +
                              entry("target", "I64", "[" + count + "]", end, end + target.size() * 8) + "}",
                          bytes_of(input) + bytes_of(target));
}

}  // namespace ddprun::test
