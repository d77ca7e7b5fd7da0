// SPDX-License-Identifier: MIT
#include "dump_pictures.h"

#include "image_file.h"
#include "random_crop.h"
#include "resize.h"

#include <ddprun/image_augment.h>
#include <ddprun/pixel_changes.h>

#include <ATen/ATen.h>

#include <stdexcept>

namespace ddprun {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

Json picture(const std::string& file, int64_t channels) {
  const auto [height, width] = images::read_size(file);
  const auto pixels = images::decode(file, channels);
  if (pixels.size.height != height || pixels.size.width != width) throw std::logic_error("two sizes of one picture");
  return {{"shape", {height, width, pixels.channels}}, {"data", to_hex(pixels.bytes.data(), pixels.bytes.size())}};
}

images::Pixels part(const Words& words, int64_t least_side) {
  const images::Box box{std::stol(words[2]), std::stol(words[3]), {std::stol(words[4]), std::stol(words[5])}};
  return images::decode(words[1], 3, {}, [&](const images::Size&) { return images::Cut{box, least_side}; });
}

// Takes [C, H, W].
Json to_json(const at::Tensor& pixels) {
  const auto rows = pixels.permute({1, 2, 0}).contiguous();
  return {{"shape", rows.sizes().vec()}, {"data", to_hex(rows.const_data_ptr<uint8_t>(), rows.nbytes())}};
}

at::Tensor whole(const std::string& file) {
  const auto pixels = images::decode(file, 3);
  return at::tensor(pixels.bytes, at::kByte).view({pixels.size.height, pixels.size.width, 3}).permute({2, 0, 1});
}

at::Tensor changed(const at::Tensor& pixels, const Words& words) {
  const auto& name = words[2];
  const double number = words.size() > 3 ? std::stod(words[3]) : 0;
  if (name == "brightness") return adjust_brightness(pixels, number);
  if (name == "contrast") return adjust_contrast(pixels, number);
  if (name == "saturation") return adjust_saturation(pixels, number);
  if (name == "sharpness") return adjust_sharpness(pixels, number);
  if (name == "hue") return adjust_hue(pixels, number);
  if (name == "posterize") return posterize(pixels, std::stol(words[3]));
  if (name == "solarize") return solarize(pixels, number);
  if (name == "autocontrast") return autocontrast(pixels);
  if (name == "equalize") return equalize(pixels);
  if (name == "rotate") return rotate(pixels, number);
  std::array<double, 6> matrix{};
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = std::stod(words.at(3 + i));
  return transform_affine(pixels, matrix);
}

Json boxes(const Words& words) {
  const auto size = images::read_size(words[1]);
  const images::CropRange range{.scale = {std::stod(words[3]), std::stod(words[4])}};
  auto found = Json::array();
  for (uint64_t sample = 0; sample < std::stoul(words[2]); ++sample) {
    RandomStream random(1, sample);
    const auto box = images::random_box(size, range, random);
    found.push_back({box.top, box.left, box.size.height, box.size.width});
  }
  return found;
}

// Words are names and values of ImageAugmentation's options.
Json augmented(const Words& words) {
  ImageAugmentation augmentation;
  const double number = words.size() > 4 ? std::stod(words[4]) : 0;
  if (words[3] == "trivial_augment") augmentation.trivial_augment = true;
  if (words[3] == "rotation") augmentation.rotation = number;
  if (words[3] == "color_jitter") {
    for (size_t i = 0; i < 4; ++i) augmentation.color_jitter.at(i) = std::stod(words.at(4 + i));
  }
  const auto pixels = whole(words[1]);
  auto means = Json::array();
  for (int64_t sample = 0; sample < std::stol(words[2]); ++sample) {
    const auto mean = augmentation.change_pixels(pixels, sample, {.seed = 7}).to(at::kDouble).mean({1, 2});
    means.push_back({mean[0].item<double>(), mean[1].item<double>(), mean[2].item<double>()});
  }
  return means;
}

Json erased(const Words& words) {
  const auto count = std::stol(words[2]);
  const auto [height, width] = images::read_size(words[1]);
  auto batch = at::ones({count, 1, height, width});
  const ImageAugmentation augmentation{.erasing = std::stod(words[3])};
  augmentation.erase(batch, at::arange(count, at::kLong), {.seed = 7});
  const auto gone = batch.eq(0).squeeze(1);
  const auto sides = at::stack({gone.any(2).sum(1), gone.any(1).sum(1)}, 1);
  auto found = Json::array();
  for (int64_t i = 0; i < count; ++i) found.push_back({sides[i][0].item<int64_t>(), sides[i][1].item<int64_t>()});
  return found;
}

}  // namespace

std::string to_hex(const uint8_t* bytes, size_t count) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * count);
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::map<std::string, std::function<Json(const Words&)>> picture_readers() {
  return {
      {"rgb", [](const Words& words) { return picture(words[1], 3); }},
      {"grey", [](const Words& words) { return picture(words[1], 1); }},
      {"part",
       [](const Words& words) {
         const auto pixels = part(words, 0);
         return Json{{"shape", {pixels.size.height, pixels.size.width, pixels.channels}},
                     {"data", to_hex(pixels.bytes.data(), pixels.bytes.size())}};
       }},
      {"resized",
       [](const Words& words) {
         const auto side = std::stol(words[6]);
         return to_json(images::resized(part(words, 2 * side), side));
       }},
      {"change", [](const Words& words) { return to_json(changed(whole(words[1]), words)); }},
      {"boxes", boxes},
      {"augmented", augmented},
      {"erased", erased},
  };
}

}  // namespace ddprun
