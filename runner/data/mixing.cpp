// SPDX-License-Identifier: MIT
#include "data/mixing.h"

#include <ddprun/error.h>
#include <ddprun/random.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

constexpr uint64_t kMixDraws = 0x6D69780000000000;  // "mix": distinct from other uses of the seed

// Draws from Beta(alpha, alpha).
double draw_share(double alpha, RandomStream& random) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(random.next());
  return at::_sample_dirichlet(at::full({2}, alpha, at::kDouble), generator)[0].item<double>();
}

at::Tensor soft_targets(const at::Tensor& classes, double share, int64_t count) {
  const auto whole = at::one_hot(classes, count).to(at::kFloat);
  const int64_t rows = classes.size(0) - 1;
  return whole.narrow(0, 1, rows).mul(share).add_(whole.narrow(0, 0, rows), 1 - share);
}

}  // namespace

Mixing::Mixing(const TrainerConfig& config, uint64_t seed, const DataSpec& data)
    : mixup_(config.mixup), cutmix_(config.cutmix), seed_(seed), classes_(data.classes) {
  if (!enabled()) return;
  const std::string key = mixup_ > 0 ? "trainer.mixup" : "trainer.cutmix";
  if (classes_ < 1) throw UserError(key + " mixes the classes of samples, but the dataset has no classes");
  if (!data.extras.empty())
    throw UserError(key + " mixes input and class alone, but the dataset's samples have extras");
  if (cutmix_ > 0 && data.sample_shape.size() != 3)
    throw UserError(c10::str("trainer.cutmix cuts out of images, [C, H, W], but the dataset's samples are ",
                             at::IntArrayRef(data.sample_shape)));
}

Batch Mixing::mixed(const Batch& batch, int64_t step) const {
  if (!enabled()) return batch;
  require_mixable(batch);
  const int64_t rows = batch.size() - 1, dims = batch.input.dim();
  const auto drawn = draw(step, dims > 2 ? batch.input.size(2) : 0, dims > 3 ? batch.input.size(3) : 0);
  const auto own = batch.input.narrow(0, 1, rows), before = batch.input.narrow(0, 0, rows);
  Batch result{.target = soft_targets(batch.target, drawn.share, classes_), .index = batch.index.narrow(0, 1, rows)};
  if (!drawn.cuts) {
    result.input = before.mul(1 - drawn.share).add_(own, drawn.share);
    return result;
  }
  const auto [top, left, height, width] = drawn.box;
  const auto part = [&](const at::Tensor& images) { return images.narrow(2, top, height).narrow(3, left, width); };
  result.input = own.clone();
  part(result.input).copy_(part(before));
  return result;
}

// With both, each step does one of them.
Mixing::Draw Mixing::draw(int64_t step, int64_t height, int64_t width) const {
  RandomStream random(seed_, kMixDraws, static_cast<uint32_t>(step));
  const bool first = random.below(2) == 0;
  Draw drawn{.cuts = cutmix_ > 0 && (mixup_ == 0 || first)};
  drawn.share = draw_share(drawn.cuts ? cutmix_ : mixup_, random);
  if (!drawn.cuts) return drawn;
  const double half = 0.5 * std::sqrt(1 - drawn.share);
  const auto range = [&](int64_t size) {  // begin and length
    const auto middle = static_cast<int64_t>(random.below(static_cast<uint64_t>(size)));
    const auto reach = static_cast<int64_t>(half * static_cast<double>(size));
    const int64_t begin = std::max<int64_t>(middle - reach, 0);
    return std::array{begin, std::min(middle + reach, size) - begin};
  };
  const auto columns = range(width), rows = range(height);
  drawn.box = {rows[0], columns[0], rows[1], columns[1]};
  drawn.share = 1 - static_cast<double>(rows[1] * columns[1]) / static_cast<double>(width * height);
  return drawn;
}

void Mixing::require_mixable(const Batch& batch) const {
  const bool is_classified = batch.target.dim() == 1 && batch.target.scalar_type() == at::kLong;
  if (is_classified && at::isFloatingType(batch.input.scalar_type()) && (cutmix_ == 0 || batch.input.dim() == 4))
    return;
  throw UserError(
      c10::str("trainer.", mixup_ > 0 ? "mixup" : "cutmix",
               " mixes samples of numbers with a class each, targets of [B] int64; the dataset gives inputs of ",
               batch.input.sizes(), " ", batch.input.scalar_type(), " and targets of ", batch.target.sizes(), " ",
               batch.target.scalar_type()));
}

}  // namespace ddprun
