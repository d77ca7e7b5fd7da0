// SPDX-License-Identifier: MIT
#include <ddprun/pixel_changes.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace ddprun {
namespace {

using Table = std::array<uint8_t, 256>;

// Returns the picture with each value replaced by the entry of its channel's table.
template <class TableOf>
at::Tensor looked_up(const at::Tensor& picture, TableOf table_of) {
  const auto from = picture.contiguous();
  auto result = at::empty_like(from);
  const int64_t plane = from.size(1) * from.size(2);
  for (int64_t channel = 0; channel < from.size(0); ++channel) {
    const auto* in = from.const_data_ptr<uint8_t>() + channel * plane;
    auto* out = result.mutable_data_ptr<uint8_t>() + channel * plane;
    const Table table = table_of(in, plane);
    for (int64_t i = 0; i < plane; ++i) out[i] = table[in[i]];
  }
  return result;
}

// Returns the table of one function for all channels.
template <class Function>
at::Tensor mapped(const at::Tensor& picture, Function function) {
  Table table;
  for (int value = 0; value < 256; ++value) table[static_cast<size_t>(value)] = static_cast<uint8_t>(function(value));
  return looked_up(picture, [&](const uint8_t*, int64_t) { return table; });
}

// Returns other + factor * (value - other), its fraction cut off.
uint8_t blended(float other, float value, float factor) {
  return static_cast<uint8_t>(std::clamp(other + factor * (value - other), 0.0F, 255.0F));
}

at::Tensor blended(const at::Tensor& other, const at::Tensor& picture, double factor) {
  return (other + (picture - other).mul_(factor)).clamp_(0, 255).to(at::kByte);
}

// Returns the brightness, [1, H, W] float32: whole numbers, rounded as Pillow rounds them. The sum is exact in float32.
at::Tensor grey_of(const at::Tensor& picture) {
  const auto values = picture.to(at::kFloat);
  if (picture.size(0) == 1) return values;
  const auto sum = values.select(0, 0).mul(19595).add_(values.select(0, 1), 38470).add_(values.select(0, 2), 7471);
  return sum.add_(32768).mul_(1.0 / 65536).floor_().unsqueeze(0);
}

Table histogram_table(const uint8_t* values, int64_t count, Table (*make)(const std::array<int64_t, 256>&)) {
  std::array<int64_t, 256> histogram{};
  for (int64_t i = 0; i < count; ++i) ++histogram[values[i]];
  return make(histogram);
}

Table unchanged() {
  Table table;
  std::iota(table.begin(), table.end(), uint8_t{0});
  return table;
}

Table stretched(const std::array<int64_t, 256>& histogram) {
  const auto is_used = [](int64_t count) { return count > 0; };
  const auto least = std::ranges::find_if(histogram, is_used) - histogram.begin();
  const auto greatest = std::find_if(histogram.rbegin(), histogram.rend(), is_used).base() - histogram.begin() - 1;
  auto table = unchanged();
  if (greatest <= least) return table;
  const double scale = 255.0 / static_cast<double>(greatest - least);
  for (int value = 0; value < 256; ++value) {
    const double moved = value * scale - static_cast<double>(least) * scale;
    table[static_cast<size_t>(value)] = static_cast<uint8_t>(std::clamp(moved, 0.0, 255.0));
  }
  return table;
}

Table equalized(const std::array<int64_t, 256>& histogram) {
  const auto last = std::find_if(histogram.rbegin(), histogram.rend(), [](int64_t count) { return count > 0; });
  const auto all = std::accumulate(histogram.begin(), histogram.end(), int64_t{0});
  auto table = unchanged();
  const int64_t step = last == histogram.rend() ? 0 : (all - *last) / 255;
  if (step == 0) return table;
  int64_t sum = step / 2;
  for (size_t value = 0; value < table.size(); ++value) {
    table[value] = static_cast<uint8_t>(std::min<int64_t>(sum / step, 255));
    sum += histogram[value];
  }
  return table;
}

// Returns the picture through Pillow's filter SMOOTH, [C, H, W] float32 of whole numbers; the edges stay as they are.
at::Tensor smoothed(const at::Tensor& picture) {
  auto result = picture.to(at::kFloat);
  const int64_t height = picture.size(1), width = picture.size(2);
  if (height < 3 || width < 3) return result;
  const auto sum_of_three = [](const at::Tensor& values, int64_t dim) {
    const int64_t size = values.size(dim) - 2;
    return values.narrow(dim, 0, size).add(values.narrow(dim, 1, size)).add_(values.narrow(dim, 2, size));
  };
  auto inner = result.narrow(1, 1, height - 2).narrow(2, 1, width - 2);
  const auto sum = sum_of_three(sum_of_three(result, 1), 2).add_(inner, 4);  // its middle counts five times
  inner.copy_(sum.mul_(1.0 / 13).add_(0.5).floor_());
  return result;
}

}  // namespace

at::Tensor adjust_brightness(const at::Tensor& picture, double factor) {
  const auto share = static_cast<float>(factor);
  return mapped(picture, [&](int value) { return blended(0, static_cast<float>(value), share); });
}

at::Tensor adjust_contrast(const at::Tensor& picture, double factor) {
  const auto mean = std::floor(static_cast<float>(grey_of(picture).mean(at::kDouble).item<double>() + 0.5));
  const auto share = static_cast<float>(factor);
  return mapped(picture, [&](int value) { return blended(mean, static_cast<float>(value), share); });
}

at::Tensor adjust_saturation(const at::Tensor& picture, double factor) {
  return picture.size(0) == 1 ? picture : blended(grey_of(picture), picture, factor);
}

at::Tensor adjust_sharpness(const at::Tensor& picture, double factor) {
  return blended(smoothed(picture), picture, factor);
}

// The hue h is 0 to 6 from red over yellow. Channel n of the result, 5 for red, 3 for green, 1 for blue, is
// max - range * clamp(min(k, 4 - k), 0, 1) with k = (n + h) mod 6 (A. R. Smith: "Color gamut transform pairs", 1978).
at::Tensor adjust_hue(const at::Tensor& picture, double part) {
  if (picture.size(0) == 1) return picture;
  const auto values = picture.to(at::kFloat);
  const auto red = values.select(0, 0), green = values.select(0, 1), blue = values.select(0, 2);
  const auto most = values.amax(0), range = most - values.amin(0);
  const auto of_others = at::where(green.eq(most), (blue - red).add_(range, 2), (red - green).add_(range, 4));
  const auto hue = at::where(red.eq(most), green - blue, of_others).div_(range.clamp_min(1)).add_(6 * part + 12);
  auto result = at::empty_like(picture);
  for (int64_t channel = 0; channel < 3; ++channel) {
    const auto k = (hue + (5 - 2 * channel)).remainder_(6);
    const auto share = at::minimum(k, 4 - k).clamp_(0, 1);
    result.select(0, channel).copy_((most - range * share).round_());
  }
  return result;
}

at::Tensor posterize(const at::Tensor& picture, int64_t bits) {
  const int mask = 0xFF & ~((1 << (8 - bits)) - 1);
  return mapped(picture, [&](int value) { return value & mask; });
}

at::Tensor solarize(const at::Tensor& picture, double threshold) {
  return mapped(picture, [&](int value) { return value < threshold ? value : 255 - value; });
}

at::Tensor autocontrast(const at::Tensor& picture) {
  return looked_up(picture, [](const uint8_t* in, int64_t count) { return histogram_table(in, count, stretched); });
}

at::Tensor equalize(const at::Tensor& picture) {
  return looked_up(picture, [](const uint8_t* in, int64_t count) { return histogram_table(in, count, equalized); });
}

at::Tensor transform_affine(const at::Tensor& picture, const std::array<double, 6>& matrix) {
  const int64_t height = picture.size(1), width = picture.size(2);
  // grid_sampler counts from -1 at one edge of the picture to 1 at the other.
  const auto part = [](int64_t count, double factor, double start, int64_t size) {
    const auto numbers = at::arange(count, at::kDouble).add_(0.5).mul_(factor).add_(start);
    return numbers.mul_(2.0 / static_cast<double>(size)).sub_(1).to(at::kFloat);
  };
  const auto position = [&](size_t first, int64_t size) {  // [H, W]
    return part(width, matrix[first], matrix[first + 2], size).unsqueeze(0) +
           part(height, matrix[first + 1], 0, size).add_(1).unsqueeze(1);
  };
  const auto x = position(0, width), y = position(3, height);
  const auto outside = at::maximum(x.abs(), y.abs()).gt(1);
  constexpr int64_t kBilinear = 0, kBorder = 1;
  auto taken = at::grid_sampler_2d(picture.to(at::kFloat).unsqueeze(0), at::stack({x, y}, 2).unsqueeze(0), kBilinear,
                                   kBorder, /*align_corners=*/false)
                   .squeeze(0);
  constexpr double kRounding = 1e-3;  // of float32; whole numbers stay what they are
  return taken.masked_fill_(outside, -kRounding).add_(kRounding).to(at::kByte);
}

at::Tensor rotate(const at::Tensor& picture, double degrees) {
  const double angle = -degrees * std::numbers::pi / 180, sine = std::sin(angle), cosine = std::cos(angle);
  const double x = static_cast<double>(picture.size(2)) / 2, y = static_cast<double>(picture.size(1)) / 2;
  return transform_affine(picture, {cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y});
}

}  // namespace ddprun
