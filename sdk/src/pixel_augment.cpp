// SPDX-License-Identifier: MIT
// What ImageAugmentation does to the bytes of one picture.
#include <ddprun/image_augment.h>
#include <ddprun/pixel_changes.h>
#include <ddprun/random.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace ddprun {
namespace {

constexpr uint64_t kPixelDraws = 0x706978656C000000;  // "pixel": distinct from other uses of the seed

enum class Change {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kCount
};

// Moves the picture by whole pixels along a dimension; what comes in is black.
at::Tensor shifted(const at::Tensor& picture, int64_t dim, int64_t by) {
  auto result = at::zeros_like(picture);
  const int64_t rest = std::max<int64_t>(picture.size(dim) - std::abs(by), 0);
  const auto from = std::min(std::max<int64_t>(-by, 0), picture.size(dim) - rest),
             to = std::min(std::max<int64_t>(by, 0), picture.size(dim) - rest);
  result.narrow(dim, to, rest).copy_(picture.narrow(dim, from, rest));
  return result;
}

// The changes of TrivialAugment's wide space. `strength` is 0 to 1, negative for the other direction, in 30 steps.
at::Tensor changed(const at::Tensor& picture, Change change, double strength) {
  constexpr double kShear = 0.99, kPixels = 32, kDegrees = 135, kFactor = 0.99, kBits = 6;
  const double factor = 1 + kFactor * strength, shear = kShear * strength;
  const auto shift = static_cast<int64_t>(kPixels * strength);  // without its fraction
  switch (change) {
    case Change::kShearX: return transform_affine(picture, {1, shear, 0, 0, 1, 0});
    case Change::kShearY: return transform_affine(picture, {1, 0, 0, shear, 1, 0});
    case Change::kTranslateX: return shifted(picture, 2, shift);
    case Change::kTranslateY: return shifted(picture, 1, shift);
    case Change::kRotate: return rotate(picture, kDegrees * strength);
    case Change::kBrightness: return adjust_brightness(picture, factor);
    case Change::kColor: return adjust_saturation(picture, factor);
    case Change::kContrast: return adjust_contrast(picture, factor);
    case Change::kSharpness: return adjust_sharpness(picture, factor);
    case Change::kPosterize: return posterize(picture, 8 - std::lrint(kBits * std::abs(strength)));
    case Change::kSolarize: return solarize(picture, 255 - 255 * std::abs(strength));
    case Change::kAutoContrast: return autocontrast(picture);
    case Change::kEqualize: return equalize(picture);
    case Change::kIdentity:
    case Change::kCount: break;
  }
  return picture;
}

at::Tensor trivially_augmented(const at::Tensor& picture, RandomStream& random) {
  constexpr int64_t kSteps = 30;
  const auto change = static_cast<Change>(random.below(static_cast<uint64_t>(Change::kCount)));
  const double strength = static_cast<double>(random.below(kSteps + 1)) / kSteps;
  return changed(picture, change, random.below(2) == 1 ? -strength : strength);
}

// Applies the four changes in random order.
at::Tensor jittered(at::Tensor picture, const std::array<double, 4>& most, RandomStream& random) {
  std::array<size_t, 4> order{0, 1, 2, 3};
  random.shuffle(order);
  for (const auto change : order) {
    const double bound = most[change];
    if (bound == 0) continue;
    const double factor = random.uniform(std::max(0.0, 1 - bound), 1 + bound);
    if (change == 0) picture = adjust_brightness(picture, factor);
    if (change == 1) picture = adjust_contrast(picture, factor);
    if (change == 2) picture = adjust_saturation(picture, factor);
    if (change == 3) picture = adjust_hue(picture, factor - 1);
  }
  return picture;
}

}  // namespace

void ImageAugmentation::read_pixel_changes(Options& options) {
  rotation = options.get<double>("rotation", rotation,
                                 "training images are turned by up to this many degrees, to either side; 0: not",
                                 {.min = 0, .max = 180});
  const auto jitter = options.get<std::vector<double>>(
      "color_jitter", {color_jitter.begin(), color_jitter.end()},
      "how much brightness, contrast, saturation and hue of training images change, such as [0.4, 0.4, 0.4, 0.1]",
      {.min = 0, .max = 100});
  if (jitter.size() > color_jitter.size()) options.reject("color_jitter", "expected at most four numbers");
  if (jitter.size() == color_jitter.size() && jitter.back() > 0.5)
    options.reject("color_jitter", "the hue, its fourth number, changes by at most 0.5");
  color_jitter = {};
  std::copy_n(jitter.begin(), std::min(jitter.size(), color_jitter.size()), color_jitter.begin());
  trivial_augment = options.get<bool>(
      "trivial_augment", trivial_augment,
      "change each training image in one of 14 ways, such as shear, rotation, contrast (TrivialAugment Wide)");
}

bool ImageAugmentation::changes_pixels() const {
  return trivial_augment || rotation > 0 || std::ranges::any_of(color_jitter, [](double most) { return most > 0; });
}

at::Tensor ImageAugmentation::change_pixels(const at::Tensor& picture, int64_t sample, const AugmentKey& key) const {
  if (!changes_pixels()) return picture;
  RandomStream random(key.seed ^ kPixelDraws, static_cast<uint64_t>(sample), static_cast<uint32_t>(key.epoch));
  auto result = picture;
  if (rotation > 0) result = rotate(result, random.uniform(-rotation, rotation));
  result = jittered(std::move(result), color_jitter, random);
  return trivial_augment ? trivially_augmented(result, random) : result;
}

}  // namespace ddprun
