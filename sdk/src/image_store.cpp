// SPDX-License-Identifier: MIT
#include <ddprun/image_store.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
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

using ByteTable = std::array<float, 256>;  // what each byte of a channel becomes

std::vector<ByteTable> tables_of(const ImageFormat& format) {
  check_format(format);
  std::vector<ByteTable> tables(static_cast<size_t>(format.shape[0]));
  for (size_t channel = 0; channel < tables.size(); ++channel) {
    const double mean = for_channel(format.mean, channel), deviation = for_channel(format.std, channel);
    for (int byte = 0; byte < 256; ++byte) {
      tables[channel][static_cast<size_t>(byte)] = static_cast<float>((byte / 255.0 - mean) / deviation);
    }
  }
  return tables;
}

// The bytes of an image: where the first is, and how far apart those of two channels, rows and columns are.
struct Bytes {
  const uint8_t* first;
  int64_t channel, row, column;
};

// Writes the image, [tables.size(), height, width], and returns the place behind it.
float* normalize(const std::vector<ByteTable>& tables, const Bytes& bytes, int64_t height, int64_t width, float* out) {
  const auto* plane = bytes.first;
  for (const ByteTable& table : tables) {
    for (int64_t y = 0; y < height; ++y, out += width) {
      const auto* row = plane + y * bytes.row;
      for (int64_t x = 0; x < width; ++x) out[x] = table[row[x * bytes.column]];
    }
    plane += bytes.channel;
  }
  return out;
}

Batch empty_batch(const std::vector<int64_t>& shape, size_t count) {
  const auto samples = static_cast<int64_t>(count);
  std::vector<int64_t> sizes{samples};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return {.input = at::empty(sizes, at::kFloat),
          .target = at::empty({samples}, at::kLong),
          .index = at::empty({samples}, at::kLong)};
}

}  // namespace

Batch gather_images(const ImageFormat& format, std::span<const int64_t> indices, const MakeImage& make) {
  const auto tables = tables_of(format);
  auto batch = empty_batch(format.shape, indices.size());
  auto* out = batch.input.mutable_data_ptr<float>();
  auto* target = batch.target.mutable_data_ptr<int64_t>();
  std::ranges::copy(indices, batch.index.mutable_data_ptr<int64_t>());
  for (const int64_t index : indices) {
    const auto image = make(index, *target++);
    if (image.sizes() != at::IntArrayRef(format.shape) || image.scalar_type() != at::kByte)
      throw std::invalid_argument("gather_images(): expected uint8 images of the format's shape");
    const Bytes bytes{image.const_data_ptr<uint8_t>(), image.stride(0), image.stride(1), image.stride(2)};
    out = normalize(tables, bytes, image.size(1), image.size(2), out);
  }
  return batch;
}

std::vector<double> black_of(const ImageFormat& format) {
  check_format(format);
  std::vector<double> black(static_cast<size_t>(format.shape[0]));
  for (size_t c = 0; c < black.size(); ++c) black[c] = -for_channel(format.mean, c) / for_channel(format.std, c);
  return black;
}

// The images of a store that are painted when they are read, and which of them are there.
struct ImageStore::Unpainted {
  Unpainted(int64_t count, int64_t bytes_of_each, PaintImage how)
      : image_bytes(bytes_of_each),
        pixels(new uint8_t[static_cast<size_t>(count * bytes_of_each)]),
        states(new std::atomic<State>[static_cast<size_t>(count)]),
        paint(std::move(how)) {}

  // Paints the image unless that is done. Another thread that paints it is waited for.
  void provide(int64_t image) {
    auto& state = states[static_cast<size_t>(image)];
    while (state.load(std::memory_order_acquire) != State::kPainted) {
      auto expected = State::kMissing;
      if (state.compare_exchange_strong(expected, State::kInWork)) return paint_now(image, state);
      state.wait(State::kInWork);
    }
  }

  enum class State : uint8_t { kMissing, kInWork, kPainted };

  void paint_now(int64_t image, std::atomic<State>& state) try {
    paint(image, {pixels.get() + image * image_bytes, static_cast<size_t>(image_bytes)});
    state.store(State::kPainted, std::memory_order_release);
    state.notify_all();
  } catch (...) {
    state = State::kMissing;
    state.notify_all();
    throw;
  }

  int64_t image_bytes;
  std::shared_ptr<uint8_t[]> pixels;
  std::unique_ptr<std::atomic<State>[]> states;
  PaintImage paint;
};

ImageStore::ImageStore(const ImageFormat& format, std::vector<int64_t> labels, PaintImage paint)
    : ImageStore(format, nullptr, std::move(labels)) {
  unpainted_ = std::make_shared<Unpainted>(size(), image_bytes_, std::move(paint));
  pixels_ = {unpainted_->pixels, unpainted_->pixels.get()};
}

ImageStore::ImageStore(const ImageFormat& format, std::shared_ptr<const uint8_t> pixels, std::vector<int64_t> labels)
    : shape_(format.shape), pixels_(std::move(pixels)), labels_(std::move(labels)) {
  tables_ = std::make_shared<const std::vector<ByteTable>>(tables_of(format));
  image_bytes_ = shape_[0] * shape_[1] * shape_[2];
}

std::span<const uint8_t> ImageStore::pixels(int64_t image) const {
  if (image < 0 || image >= size()) {
    throw std::out_of_range("image " + std::to_string(image) + " of " + std::to_string(size()));
  }
  if (unpainted_) unpainted_->provide(first_ + image);
  return {pixels_.get() + image * image_bytes_, static_cast<size_t>(image_bytes_)};
}

void ImageStore::prefetch(int64_t image) const {
  constexpr size_t kCacheLine = 64;
  const auto bytes = pixels(image);
  for (size_t i = 0; i < bytes.size(); i += kCacheLine) __builtin_prefetch(bytes.data() + i);
}

std::vector<double> ImageStore::black() const {
  std::vector<double> black;
  for (const ByteTable& table : *tables_) black.push_back(table.front());
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
  part.first_ += first;
  return part;
}

Batch ImageStore::gather(std::span<const int64_t> images) const {
  auto batch = empty_batch(shape_, images.size());
  auto* out = batch.input.mutable_data_ptr<float>();
  auto* target = batch.target.mutable_data_ptr<int64_t>();
  auto* index = batch.index.mutable_data_ptr<int64_t>();
  for (size_t b = 0; b < images.size(); ++b) {
    const auto* first = pixels(images[b]).data();  // throws for a store without images, whose shape is empty
    const int64_t plane = shape_[1] * shape_[2];
    const Bytes bytes{first, plane, 0, 1};
    if (b + 1 < images.size()) prefetch(images[b + 1]);
    out = normalize(*tables_, bytes, 1, plane, out);  // a channel's rows follow one another: they are one long row
    target[b] = labels_[static_cast<size_t>(images[b])];
    index[b] = images[b];
  }
  return batch;
}

at::Tensor ImageStore::table() const {
  auto values = at::empty({static_cast<int64_t>(tables_->size()), 256}, at::kFloat);
  auto* row = values.mutable_data_ptr<float>();
  for (const ByteTable& table : *tables_) row = std::ranges::copy(table, row).out;
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
