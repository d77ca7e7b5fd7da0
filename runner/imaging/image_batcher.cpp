// SPDX-License-Identifier: MIT
#include "imaging/image_batcher.h"

#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace ddprun {
namespace {

// Distances between neighbours in the result.
struct Steps {
  int64_t channel, row, column;
};

// Maps each of the result's columns to one of the stored image; black ones are only at the ends.
class Columns {
 public:
  Columns(const ImageRules& rules, const ImagePlace& place) : sources_(static_cast<size_t>(rules.width)) {
    for (int x = 0; x < rules.width; ++x) sources_[static_cast<size_t>(x)] = source_column(rules, place, x);
    const auto is_image = [](int column) { return column != kBlackPixel; };
    begin_ = std::ranges::find_if(sources_, is_image) - sources_.begin();
    end_ = std::find_if(sources_.rbegin(), sources_.rend(), is_image).base() - sources_.begin();
  }

  // Writes one row, or black (the byte 0 of the table) if there is none to take from.
  void write(const uint8_t* from, const float* table, float* to, int64_t step) const {
    const auto width = static_cast<int64_t>(sources_.size());
    const int64_t begin = from ? std::min(begin_, end_) : width, end = from ? end_ : width;
    for (int64_t x = 0; x < begin; ++x) to[x * step] = table[0];
    for (int64_t x = begin; x < end; ++x) to[x * step] = table[from[sources_[static_cast<size_t>(x)]]];
    for (int64_t x = end; x < width; ++x) to[x * step] = table[0];
  }

 private:
  std::vector<int> sources_;
  int64_t begin_ = 0, end_ = 0;
};

class CpuImageBatcher final : public ImageBatcher {
 public:
  CpuImageBatcher(const ImageSource& source, const ImageForm& form)
      : source_(source), form_(form), table_(source.store->table()) {}

  c10::Device device() const override { return at::kCPU; }

  Batch make(const at::Tensor& numbers, const AugmentKey* key) const override {
    const auto& store = *source_.store;
    const auto rules = image_rules(source_, key);
    const auto format = form_.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const auto count = numbers.numel();
    Batch batch{.input = at::empty({count, rules.channels, rules.height, rules.width},
                                   at::TensorOptions().dtype(at::kFloat).memory_format(format)),
                .target = at::empty({count}, at::kLong),
                .index = numbers};
    const auto* number = numbers.const_data_ptr<int64_t>();
    auto* out = batch.input.mutable_data_ptr<float>();
    auto* target = batch.target.mutable_data_ptr<int64_t>();
    const Steps steps{batch.input.stride(1), batch.input.stride(2), batch.input.stride(3)};
    const int64_t size = int64_t{rules.channels} * rules.height * rules.width;
    for (int64_t b = 0; b < count; ++b) {
      const auto bytes = store.pixels(number[b]);
      if (b + 1 < count) store.prefetch(number[b + 1]);
      write_image(rules, place_of(rules, number[b]), bytes.data(), out + b * size, steps);
      target[b] = store.labels()[static_cast<size_t>(number[b])];
    }
    if (form_.bf16) batch.input = batch.input.to(at::kBFloat16);
    if (key && source_.augmentation) source_.augmentation->erase(batch.input, numbers, *key);
    return batch;
  }

 private:
  void write_image(const ImageRules& rules, const ImagePlace& place, const uint8_t* bytes, float* out,
                   const Steps& steps) const {
    const Columns columns(rules, place);
    const auto* table = table_.const_data_ptr<float>();
    for (int channel = 0; channel < rules.channels; ++channel) {
      for (int y = 0; y < rules.height; ++y) {
        auto* to = out + channel * steps.channel + y * steps.row;
        const int row = source_row(rules, place, y);
        const auto* from = bytes + (int64_t{channel} * rules.height + std::max(row, 0)) * rules.width;
        columns.write(row == kBlackPixel ? nullptr : from, table + channel * 256, to, steps.column);
      }
    }
    if (rules.cutout > 0) cut(rules, place, out, steps);
  }

  static void cut(const ImageRules& rules, const ImagePlace& place, float* out, const Steps& steps) {
    for (int y = std::max(place.cut_row, 0); y < std::min(place.cut_row + rules.cutout, rules.height); ++y) {
      for (int x = std::max(place.cut_column, 0); x < std::min(place.cut_column + rules.cutout, rules.width); ++x) {
        for (int c = 0; c < rules.channels; ++c) out[c * steps.channel + y * steps.row + x * steps.column] = 0;
      }
    }
  }

  ImageSource source_;
  ImageForm form_;
  at::Tensor table_;
};

}  // namespace

at::Tensor ImageBatcher::request(const at::Tensor&, const AugmentKey*) const {
  throw std::logic_error("this batch is made at once");
}

Batch ImageBatcher::make_of(const at::Tensor&, const AugmentKey*) const {
  throw std::logic_error("this batch is made at once");
}

ImageRules image_rules(const ImageSource& source, const AugmentKey* key) {
  const auto& shape = source.store->shape();
  ImageRules rules{.channels = static_cast<int>(shape[0]),
                   .height = static_cast<int>(shape[1]),
                   .width = static_cast<int>(shape[2]),
                   .crop_padding = 0,
                   .crop_reflect = 0,
                   .flip = 0,
                   .cutout = 0,
                   .seed = {0, 0},
                   .epoch = 0};
  if (!key || !source.augmentation) return rules;
  const auto& augmentation = *source.augmentation;
  augmentation.check(shape);
  rules.crop_padding = static_cast<int>(augmentation.crop_padding);
  rules.crop_reflect = augmentation.crop_reflect ? 1 : 0;
  rules.flip = !augmentation.flip ? 0 : augmentation.flip_alternates ? 2 : 1;
  rules.cutout = static_cast<int>(augmentation.cutout);
  rules.seed[0] = static_cast<unsigned int>(key->seed);
  rules.seed[1] = static_cast<unsigned int>(key->seed >> 32);
  rules.epoch = static_cast<unsigned int>(key->epoch);
  return rules;
}

std::unique_ptr<ImageBatcher> make_image_batcher(const ImageSource& source, const ImageForm& form) {
  return std::make_unique<CpuImageBatcher>(source, form);
}

int64_t image_bytes(const ImageSource& source) {
  const auto& store = *source.store;
  const auto& shape = store.shape();
  constexpr auto kTableRow = static_cast<int64_t>(256 * sizeof(float)), kLabel = static_cast<int64_t>(sizeof(int64_t));
  return store.size() * (shape[0] * shape[1] * shape[2] + kLabel) + shape[0] * kTableRow;
}

}  // namespace ddprun
