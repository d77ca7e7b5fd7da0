// SPDX-License-Identifier: MIT
#include "new_pictures.h"

#include "image_file.h"
#include "resize.h"
#include "sample_list.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <cstring>

namespace ddprun::images {
namespace {

void require_readable(const std::vector<std::filesystem::path>& files, const Reading& reading) {
  SampleList list{.place = "--input"};
  for (const auto& file : files) list.of(Split::kTest).push_back({.picture = file});
  const auto found = find_unreadable(list, reading, /*decode_all=*/false, [](int64_t, int64_t) {});
  if (!found.problems.empty()) throw UserError(text_of(found) + "\nLeave them out.");
}

}  // namespace

NewPictures read_new_pictures(const std::vector<std::filesystem::path>& files, const std::vector<int64_t>& shape) {
  const bool fits = shape.size() == 3 && (shape[0] == 1 || shape[0] == 3) && shape[1] == shape[2];
  if (!fits) throw UserError("--input: picture files become squares of 1 or 3 channels, which these samples are not");
  const Reading reading{.least_side = 2 * shape[1]};
  require_readable(files, reading);
  const auto bytes = static_cast<size_t>(shape[0] * shape[1] * shape[2]);
  const std::shared_ptr<uint8_t[]> pixels(new uint8_t[bytes * files.size()]);
  NewPictures pictures{.pixels = {pixels, pixels.get()}, .names = {}};
  for (size_t i = 0; i < files.size(); ++i) {
    const auto square = resized_square(decode(files[i], shape[0], reading), shape[1], shape[1]).contiguous();
    std::memcpy(pixels.get() + i * bytes, square.const_data_ptr<uint8_t>(), bytes);
    pictures.names.push_back(files[i].string());
  }
  return pictures;
}

ImageStore new_store(const ImageFormat& format, const NewPictures& pictures) {
  return {format, pictures.pixels, std::vector<int64_t>(pictures.names.size())};
}

}  // namespace ddprun::images
