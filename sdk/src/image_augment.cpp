// SPDX-License-Identifier: MIT
#include <ddprun/error.h>
#include <ddprun/image_augment.h>
#include <ddprun/philox.h>
#include <ddprun/random.h>

#include <ATen/ATen.h>

#include <cmath>
#include <string>

namespace ddprun {
namespace {

enum Draw : int64_t { kRow, kColumn, kFlip, kCutoutRow, kCutoutColumn, kDraws };

// Returns [B, 1]: one draw per sample as an integer in [0, bound).
at::Tensor below(const at::Tensor& draws, Draw draw, int64_t bound) {
  return (draws.narrow(1, draw, 1) * bound).to(at::kLong).clamp_max_(bound - 1);
}

// Mirrors positions beyond an edge at the edge's pixel: -1 becomes 1.
at::Tensor reflected(const at::Tensor& position, int64_t size) {
  return (size - 1) - ((size - 1) - position.abs()).abs();
}

at::Tensor inside(const at::Tensor& position, int64_t size) { return position.ge(0).logical_and_(position.lt(size)); }

// Returns the conjunction of `rows` [B, H] and `columns` [B, W] as [B, 1, H, W].
at::Tensor both(const at::Tensor& rows, const at::Tensor& columns) {
  return rows.unsqueeze(2).logical_and(columns.unsqueeze(1)).unsqueeze(1);
}

constexpr uint64_t kErasing = 0x6572617365000000;  // "erase": distinct from other uses of the seed

struct Rectangle {
  int64_t top, left, height, width;
};

// Draws a rectangle within an image as torchvision's RandomErasing does; one of no size if ten tries do not fit.
Rectangle erased_box(int64_t height, int64_t width, RandomStream& random) {
  constexpr int kTries = 10;
  constexpr double kLeast = 0.02, kGreatest = 0.33;  // share of the area
  constexpr double kLowest = 0.3, kWidest = 3.3;     // height to width
  const auto area = static_cast<double>(height * width);
  const auto below_or_at = [&](int64_t most) {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(most) + 1));
  };
  for (int i = 0; i < kTries; ++i) {
    const double target = area * random.uniform(kLeast, kGreatest);
    const double ratio = std::exp(random.uniform(std::log(kLowest), std::log(kWidest)));
    const auto rows = static_cast<int64_t>(std::nearbyint(std::sqrt(target * ratio))),
               columns = static_cast<int64_t>(std::nearbyint(std::sqrt(target / ratio)));
    if (rows >= height || columns >= width) continue;
    const auto top = below_or_at(height - rows);
    return {top, below_or_at(width - columns), rows, columns};
  }
  return {0, 0, 0, 0};
}

}  // namespace

void ImageAugmentation::read(Options& options) {
  crop_padding =
      options.get<int64_t>("crop_padding", crop_padding,
                           "training images are padded by this at each side, then cropped at random; 0: no crop",
                           {.min = 0, .max = 1 << 12});
  crop_reflect = options.choose("crop_mode", crop_reflect ? "reflect" : "zero", {"zero", "reflect"},
                                "padding is black, or the image mirrored at its edge") == "reflect";
  flip = options.get<bool>("flip", flip, "swap left and right in half of the training images");
  flip_alternates = options.choose("flip_mode", flip_alternates ? "alternating" : "random", {"random", "alternating"},
                                   "drawn again in each epoch, or swapped in every second one") == "alternating";
  if (crop_reflect && crop_padding == 0 && options.has("crop_mode"))
    options.reject("crop_mode", "has no effect without crop_padding");
  if (flip_alternates && !flip && options.has("flip_mode")) options.reject("flip_mode", "has no effect without flip");
  cutout = options.get<int64_t>("cutout", cutout,
                                "side of a square at a random place of training images, set to the mean; 0: none",
                                {.min = 0, .max = 1 << 14});
  erasing = options.get<double>(
      "erasing", erasing, "share of the training images that lose a rectangle of random size, set to the mean; 0: none",
      {.min = 0, .max = 1});
}

void ImageAugmentation::check(at::IntArrayRef shape) const {
  if (!crop_reflect || (crop_padding < shape[1] && crop_padding < shape[2])) return;
  throw UserError("crop_padding: " + std::to_string(crop_padding) + " with crop_mode: reflect, but the images are " +
                  std::to_string(shape[1]) + " x " + std::to_string(shape[2]) + "; it must be less than either");
}

// Returns [B, 1] bool: which images are mirrored.
at::Tensor ImageAugmentation::mirrored(const at::Tensor& draws, const at::Tensor& index, const AugmentKey& key) const {
  if (!flip || !flip_alternates) return draws.narrow(1, kFlip, 1).lt(flip ? 0.5 : 0.0);
  const auto first = uniform_for_samples(key.seed, 0, index, kDraws).to(draws.device(), /*non_blocking=*/true);
  const auto mirror = first.narrow(1, kFlip, 1).lt(0.5);
  return key.epoch % 2 == 0 ? mirror : mirror.logical_not();
}

at::Tensor ImageAugmentation::apply(const at::Tensor& images, const at::Tensor& index, const AugmentKey& key,
                                    const std::vector<double>& black) const {
  if (crop_padding == 0 && !flip && cutout == 0 && erasing == 0) return images;
  check(images.sizes().slice(1));
  const int64_t height = images.size(2), width = images.size(3);
  const auto draws = uniform_for_samples(key.seed, key.epoch, index, kDraws).to(images.device(), /*non_blocking=*/true);
  const auto numbers = [&](int64_t size) { return at::arange(size, draws.options().dtype(at::kLong)).unsqueeze(0); };
  const auto rows = numbers(height), columns = numbers(width);

  auto result = images;
  if (crop_padding > 0 || flip) {
    const int64_t places = 2 * crop_padding + 1;
    const auto mirror = mirrored(draws, index, key);
    const auto y = rows + (below(draws, kRow, places) - crop_padding);
    const auto x = at::where(mirror, (width - 1) - columns, columns) + (below(draws, kColumn, places) - crop_padding);
    const auto from = [&](const at::Tensor& position, int64_t size) {
      return crop_reflect ? reflected(position, size) : position.clamp(0, size - 1);
    };
    const auto pixel = (from(y, height) * width).unsqueeze(2) + from(x, width).unsqueeze(1);  // [B, H, W]
    result =
        images.flatten(2).gather(2, pixel.flatten(1).unsqueeze(1).expand({-1, images.size(1), -1})).view_as(images);
    if (!crop_reflect && crop_padding > 0) {
      const auto fill = at::tensor(black, at::kDouble).to(images.options(), /*non_blocking=*/true).view({1, -1, 1, 1});
      result = at::where(both(inside(y, height), inside(x, width)), result, fill);
    }
  }
  if (cutout > 0) {
    const auto y = rows - (below(draws, kCutoutRow, height) - cutout / 2);
    const auto x = columns - (below(draws, kCutoutColumn, width) - cutout / 2);
    result = result.masked_fill(both(inside(y, cutout), inside(x, cutout)), 0);
  }
  if (erasing > 0) {
    if (result.is_same(images)) result = images.clone();
    erase(result, index, key);
  }
  return result;
}

bool ImageAugmentation::mirrors(int64_t sample, const AugmentKey& key) const {
  if (!flip) return false;
  const auto drawn = [&](int64_t epoch) {
    RandomStream stream(key.seed, static_cast<uint64_t>(sample), static_cast<uint32_t>(epoch));
    for (int64_t i = 0; i < kFlip; ++i) stream.next();
    return philox_unit(stream.next()) < 0.5F;
  };
  return flip_alternates ? drawn(0) != (key.epoch % 2 == 1) : drawn(key.epoch);
}

void ImageAugmentation::erase(at::Tensor& images, const at::Tensor& index, const AugmentKey& key) const {
  if (erasing == 0) return;
  const auto* sample = index.const_data_ptr<int64_t>();
  for (int64_t b = 0; b < images.size(0); ++b) {
    RandomStream random(key.seed ^ kErasing, static_cast<uint64_t>(sample[b]), static_cast<uint32_t>(key.epoch));
    if (random.uniform() >= erasing) continue;
    const auto [top, left, height, width] = erased_box(images.size(2), images.size(3), random);
    images[b].narrow(1, top, height).narrow(2, left, width).zero_();
  }
}

}  // namespace ddprun
