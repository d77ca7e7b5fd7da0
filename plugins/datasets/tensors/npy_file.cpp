// SPDX-License-Identifier: MIT
#include "npy_file.h"

#include "npy_header.h"

#include <ddprun/safetensors.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace ddprun::arrays {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kVersionEnd = 8;  // the magic, then major and minor version

// Returns the dictionary's text and sets `end` to the position of the first value.
std::string_view header_text(const MappedFile& file, uint64_t& end) {
  const auto text = file.text();
  if (text.starts_with("PK")) file.refuse("is a .npz archive; save each array with numpy.save instead");
  if (!text.starts_with(kMagic) || file.size < kVersionEnd + 4) {
    file.refuse("is not a .npy file: it does not begin like numpy.save's, or is truncated; write it again");
  }
  const int major = file.bytes.get()[6];
  if (major < 1 || major > 3) file.refuse(".npy version " + std::to_string(major) + ", expected 1, 2 or 3");
  const uint64_t length_bytes = major == 1 ? 2 : 4;
  uint64_t length = 0;
  for (uint64_t i = 0; i < length_bytes; ++i) length |= uint64_t{file.bytes.get()[kVersionEnd + i]} << (8 * i);
  const uint64_t begin = kVersionEnd + length_bytes;
  if (length > file.size - begin) {
    file.refuse("its first bytes claim a header of " + std::to_string(length) + " bytes, the whole file has " +
                std::to_string(file.size) + ": it is truncated; write it again");
  }
  end = begin + length;
  return text.substr(begin, length);
}

at::ScalarType dtype_of(const MappedFile& file, const std::string& descr) {
  if (descr.find('O') != std::string::npos) {
    file.refuse("holds Python objects ('" + descr + "'), expected numbers; save array.astype('float32')");
  }
  const auto name = std::string_view(descr).substr(descr.empty() ? 0 : 1);
  const auto known = std::ranges::find(known_dtypes(), name, &Dtype::npy);
  const bool ordered = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  if (!ordered || name.empty() || known == known_dtypes().end()) {
    file.refuse("holds values of type '" + descr +
                "', expected f8, f4, f2, i8, i4, i2, i1, u1 or b1; save array.astype('float32') or .astype('int64')");
  }
  if (descr[0] == '>' && c10::elementSize(known->type) > 1) {
    file.refuse("is big-endian ('" + descr + "'), expected '<" + descr.substr(1) + "'; save array.astype('<" +
                descr.substr(1) + "')");
  }
  return known->type;
}

}  // namespace

StoredArray read_npy(const MappedFile& file) {
  uint64_t begin = 0;
  const auto text = header_text(file, begin);
  NpyHeader header;
  try {
    header = parse_npy_header(text);
  } catch (const std::runtime_error& error) {
    file.refuse(std::string("its .npy header: ") + error.what() + "; save an array of numbers with numpy.save");
  }
  StoredArray array{.place = file.path.string(), .dtype = dtype_of(file, header.descr), .shape = header.shape};
  if (header.fortran_order && header.shape.size() > 1) {
    file.refuse("is in Fortran order, expected C order; save numpy.ascontiguousarray(array)");
  }
  const auto expected = byte_count(array.shape, array.dtype);
  const auto found = static_cast<int64_t>(file.size - begin);
  if (expected != found) {
    file.refuse(
        "its header claims " + array.text() + ", which is " +
        (expected ? std::to_string(*expected) : "more than any number of") + " bytes, but " + std::to_string(found) +
        " follow: " + (!expected || *expected > found ? "it is truncated" : "there is more than the header says") +
        "; write it again");
  }
  array.bytes = {file.bytes, file.bytes.get() + begin};
  return array;
}

}  // namespace ddprun::arrays
