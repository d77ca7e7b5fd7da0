// SPDX-License-Identifier: MIT
#include <ddprun/image_store.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ddprun {
namespace {

double for_channel(const std::vector<double>& values, size_t channel) {
  return values[values.size() == 1 ? 0 : channel];
}

void check_format(const ImageFormat& format) {
  const auto fits = [&](const std::vector<double>& values) {
    return values.size() == 1 || static_cast<int64_t>(values.size()) == format.shape[0];
  };
  const bool good = format.shape.size() == 3 && format.shape[0] > 0 && format.shape[1] > 0 && format.shape[2] > 0 &&
                    fits(format.mean) && fits(format.std);
  if (!good) throw std::invalid_argument("ImageFormat: a shape {C, H, W}, and 1 or C means and deviations");
}

}  // namespace

std::vector<double> black_of(const ImageFormat& format) {
  check_format(format);
  std::vector<double> black(static_cast<size_t>(format.shape[0]));
  for (size_t c = 0; c < black.size(); ++c) black[c] = -for_channel(format.mean, c) / for_channel(format.std, c);
  return black;
}

ImageStore::ImageStore(const ImageFormat& format, std::shared_ptr<const uint8_t> pixels, std::vector<int64_t> labels)
    : shape_(format.shape), pixels_(std::move(pixels)), labels_(std::move(labels)) {
  check_format(format);
  image_bytes_ = shape_[0] * shape_[1] * shape_[2];
  std::vector<Table> tables(static_cast<size_t>(shape_[0]));
  for (size_t channel = 0; channel < tables.size(); ++channel) {
    const double mean = for_channel(format.mean, channel), deviation = for_channel(format.std, channel);
    for (int byte = 0; byte < 256; ++byte) {
      tables[channel][static_cast<size_t>(byte)] = static_cast<float>((byte / 255.0 - mean) / deviation);
    }
  }
  tables_ = std::make_shared<const std::vector<Table>>(std::move(tables));
}

std::span<const uint8_t> ImageStore::pixels(int64_t image) const {
  if (image < 0 || image >= size()) {
    throw std::out_of_range("image " + std::to_string(image) + " of " + std::to_string(size()));
  }
  return {pixels_.get() + image * image_bytes_, static_cast<size_t>(image_bytes_)};
}

void ImageStore::prefetch(int64_t image) const {
  constexpr size_t kCacheLine = 64;
  const auto bytes = pixels(image);
  for (size_t i = 0; i < bytes.size(); i += kCacheLine) __builtin_prefetch(bytes.data() + i);
}

std::vector<double> ImageStore::black() const {
  std::vector<double> black;
  for (const Table& table : *tables_) black.push_back(table.front());
  return black;
}

ImageStore ImageStore::slice(int64_t first, int64_t count) const {
  if (first < 0 || count < 0 || first > size() - count) {
    throw std::out_of_range("images " + std::to_string(first) + " + " + std::to_string(count) + " of " +
                            std::to_string(size()));
  }
  ImageStore part = *this;
  part.labels_.assign(labels_.begin() + first, labels_.begin() + first + count);
  part.pixels_ = {pixels_, pixels_.get() + first * image_bytes_};
  return part;
}

Batch ImageStore::gather(std::span<const int64_t> images) const {
  const auto count = static_cast<int64_t>(images.size());
  std::vector<int64_t> sizes{count};
  sizes.insert(sizes.end(), shape_.begin(), shape_.end());
  Batch batch{.input = at::empty(sizes, at::kFloat),
              .target = at::empty({count}, at::kLong),
              .index = at::empty({count}, at::kLong)};
  auto* out = batch.input.mutable_data_ptr<float>();
  auto* target = batch.target.mutable_data_ptr<int64_t>();
  auto* index = batch.index.mutable_data_ptr<int64_t>();
  for (int64_t b = 0; b < count; ++b) {
    const int64_t image = images[static_cast<size_t>(b)];
    const auto bytes = pixels(image);
    if (b + 1 < count) prefetch(images[static_cast<size_t>(b + 1)]);
    normalize(bytes.data(), out + b * image_bytes_);
    target[b] = labels_[static_cast<size_t>(image)];
    index[b] = image;
  }
  return batch;
}

void ImageStore::normalize(const uint8_t* bytes, float* out) const {
  const auto plane = static_cast<size_t>(image_bytes_ / shape_[0]);
  for (const Table& table : *tables_) {
    for (size_t i = 0; i < plane; ++i) out[i] = table[bytes[i]];
    bytes += plane;
    out += plane;
  }
}

at::Tensor ImageStore::table() const {
  auto values = at::empty({static_cast<int64_t>(tables_->size()), 256}, at::kFloat);
  auto* row = values.mutable_data_ptr<float>();
  for (const Table& table : *tables_) row = std::ranges::copy(table, row).out;
  return values;
}

// The tables' ends hold mean and deviation.
at::Tensor ImageStore::to_image(const at::Tensor& input) const {
  const auto channels = static_cast<int64_t>(tables_->size());
  auto black = at::empty({1, channels, 1, 1}, at::kFloat), white = at::empty_like(black);
  for (int64_t channel = 0; channel < channels; ++channel) {
    black[0][channel] = tables_->at(static_cast<size_t>(channel)).front();
    white[0][channel] = tables_->at(static_cast<size_t>(channel)).back();
  }
  return ((input - black) / (white - black) * 255).round().clamp(0, 255).to(at::kByte);
}

}  // namespace ddprun
