// SPDX-License-Identifier: MIT
#include "pooling_loops.h"

#include "loops/image_shape.h"

#include <ddprun/fused_layers.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <functional>

#define DDPRUN_LOOPS "pooled_cells.inc"
#include "loops/vector_loops.h"

namespace ddprun {
namespace {

constexpr auto kLayout = at::MemoryFormat::ChannelsLast;

ImageShape shape_of(const at::Tensor& images) { return {images.size(2), images.size(3), images.size(1)}; }

at::Tensor empty_pooled(const at::Tensor& images, c10::ScalarType type) {
  return at::empty({images.size(0), images.size(1), images.size(2) / 2, images.size(3) / 2},
                   images.options().dtype(type), kLayout);
}

// Calls `call` with a null pointer of the type that the loops use for the values.
template <class Call>
auto with_type_of(const at::Tensor& tensor, Call call) {
  if (tensor.scalar_type() == at::kFloat) return call(static_cast<float*>(nullptr));
  return call(static_cast<Bf16Bits*>(nullptr));
}

template <class T>
T* written(T*, const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

template <class T>
const T* read(T*, const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

using ImageRange = std::function<void(int64_t begin, int64_t end)>;

void for_images(const at::Tensor& images, const ImageRange& work) { at::parallel_for(0, images.size(0), 1, work); }

// Two sums per channel and image, which are then added in the order of images: the result is the same with any number
// of threads.
class SumsOfImages {
 public:
  explicit SumsOfImages(const at::Tensor& images)
      : channels_(static_cast<size_t>(images.size(1))), sums_(2 * channels_ * static_cast<size_t>(images.size(0))) {}

  double* of(int64_t image) { return sums_.data() + 2 * channels_ * static_cast<size_t>(image); }

  ChannelSums added() const {
    ChannelSums total{std::vector<double>(channels_), std::vector<double>(channels_)};
    for (auto image = sums_.begin(); image != sums_.end(); image += static_cast<std::ptrdiff_t>(2 * channels_)) {
      for (size_t c = 0; c < channels_; ++c) {
        total.first[c] += image[static_cast<std::ptrdiff_t>(c)];
        total.second[c] += image[static_cast<std::ptrdiff_t>(channels_ + c)];
      }
    }
    return total;
  }

 private:
  size_t channels_;
  std::vector<double> sums_;
};

}  // namespace

at::Tensor in_channels_last(const at::Tensor& gradients) { return gradients.contiguous(kLayout); }

bool can_pool_in_one_pass(const at::Tensor& images) {
  const bool type = images.scalar_type() == at::kFloat || images.scalar_type() == at::kBFloat16;
  return fused_layers() && images.is_cpu() && type && images.dim() == 4 && images.is_contiguous(kLayout) &&
         images.size(2) >= 2 && images.size(3) >= 2 && images.numel() > 0;
}

Pooled pool(const at::Tensor& images, const Channels& direction) {
  const auto shape = shape_of(images);
  Pooled pooled{empty_pooled(images, images.scalar_type()), empty_pooled(images, at::kByte)};
  auto* places = pooled.places.mutable_data_ptr<uint8_t>();
  with_type_of(images, [&](auto* type) {
    const auto* in = read(type, images);
    auto* out = written(type, pooled.values);
    for_images(images, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * shape.pooled_size();
        DDPRUN_RUN_LOOP(PoolLoop, in + i * shape.size(), shape, direction.data(), out + at, places + at);
      }
    });
  });
  return pooled;
}

ChannelSums channel_sums(const at::Tensor& images, const Channels& origin) {
  const auto shape = shape_of(images);
  SumsOfImages sums(images);
  with_type_of(images, [&](auto* type) {
    const auto* in = read(type, images);
    for_images(images, [&](int64_t begin, int64_t end) {
      Channels row(2 * origin.size());
      for (int64_t i = begin; i < end; ++i)
        DDPRUN_RUN_LOOP(SumLoop, in + i * shape.size(), shape, origin.data(), row.data(), sums.of(i));
    });
  });
  return sums.added();
}

at::Tensor scale_and_cut(const Pooled& pooled, const Channels& scale, const Channels& shift) {
  auto result = at::empty_like(pooled.values);
  const int64_t channels = result.size(1), cells = result.size(2) * result.size(3), size = cells * channels;
  auto* places = pooled.places.mutable_data_ptr<uint8_t>();
  with_type_of(result, [&](auto* type) {
    const auto* in = read(type, pooled.values);
    auto* out = written(type, result);
    for_images(result, [&](int64_t begin, int64_t end) {
      DDPRUN_RUN_LOOP(CutLoop, in + begin * size, (end - begin) * cells, channels, scale.data(), shift.data(),
                      out + begin * size, places + begin * size);
    });
  });
  return result;
}

ChannelSums gradient_sums(const at::Tensor& gradients, const Pooled& pooled, const at::Tensor& images,
                          const Channels& mean) {
  const auto shape = shape_of(images);
  const auto* places = pooled.places.const_data_ptr<uint8_t>();
  SumsOfImages sums(images);
  with_type_of(images, [&](auto* type) {
    const auto *in = read(type, gradients), *values = read(type, pooled.values);
    for_images(images, [&](int64_t begin, int64_t end) {
      Channels row(2 * mean.size());
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * shape.pooled_size();
        DDPRUN_RUN_LOOP(GradientSumLoop, in + at, values + at, places + at, shape, mean.data(), row.data(), sums.of(i));
      }
    });
  });
  return sums.added();
}

at::Tensor spread(const at::Tensor& gradients, const at::Tensor& places, at::IntArrayRef sizes) {
  const bool left_over = sizes[2] % 2 != 0 || sizes[3] % 2 != 0;
  auto result = at::empty(sizes, gradients.options(), kLayout);
  if (left_over) result.zero_();
  const auto shape = shape_of(result);
  const auto* from = places.const_data_ptr<uint8_t>();
  with_type_of(result, [&](auto* type) {
    const auto* in = read(type, gradients);
    auto* out = written(type, result);
    for_images(result, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * shape.pooled_size();
        DDPRUN_RUN_LOOP(SpreadLoop, in + at, from + at, shape, out + i * shape.size());
      }
    });
  });
  return result;
}

at::Tensor spread_through_norm(const at::Tensor& gradients, const at::Tensor& places, const at::Tensor& images,
                               const NormGradient& norm) {
  auto result = at::empty_like(images);
  const auto shape = shape_of(result);
  const NormTerms channels{norm.factor.data(), norm.slope.data(), norm.mean.data(), norm.constant.data()};
  const auto* from = places.const_data_ptr<uint8_t>();
  with_type_of(result, [&](auto* type) {
    const auto *in = read(type, gradients), *image = read(type, images);
    auto* out = written(type, result);
    for_images(result, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * shape.pooled_size(), whole = i * shape.size();
        DDPRUN_RUN_LOOP(NormSpreadLoop, in + at, from + at, image + whole, shape, channels, out + whole);
      }
    });
  });
  return result;
}

}  // namespace ddprun
