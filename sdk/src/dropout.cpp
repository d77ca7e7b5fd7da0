// SPDX-License-Identifier: MIT
#include "loops/lanes.h"

#include <ddprun/dropout.h>
#include <ddprun/fused_layers.h>
#include <ddprun/philox.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

constexpr int64_t kHalves = 8, kBlock = kLanes * kHalves;  // values that kLanes counters decide on
constexpr double kChances = 65536;

struct Rule {
  uint64_t key;
  uint32_t dropped;  // out of 65536 equally likely values
  float factor;      // applied to the values that stay
};

}  // namespace
}  // namespace ddprun

#define DDPRUN_LOOPS "dropped_values.inc"
#include "loops/vector_loops.h"

namespace ddprun {
namespace {

template <class T>
at::Tensor dropped_as(const at::Tensor& input, const Rule& rule) {
  auto result = at::empty_like(input);
  const auto* from = static_cast<const T*>(input.const_data_ptr());
  auto* to = static_cast<T*>(result.mutable_data_ptr());
  const int64_t count = input.numel(), blocks = (count + kBlock - 1) / kBlock;
  at::parallel_for(0, blocks, at::internal::GRAIN_SIZE / kBlock, [&](int64_t begin, int64_t end) {
    DDPRUN_RUN_LOOP(DropLoop, from, to, begin * kBlock, std::min(end * kBlock, count), rule);
  });
  return result;
}

at::Tensor dropped(const at::Tensor& input, const Rule& rule) {
  RECORD_FUNCTION("ddprun::dropout", {});
  return input.scalar_type() == at::kFloat ? dropped_as<float>(input, rule) : dropped_as<Bf16Bits>(input, rule);
}

// The operation is linear in its input: backward is the same once more, on gradients in the memory order of the input.
class Dropout : public torch::autograd::Function<Dropout> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, uint64_t key,
                            double p) {
    context->saved_data["key"] = static_cast<int64_t>(key);
    context->saved_data["p"] = p;
    context->saved_data["sizes"] = input.sizes();
    context->saved_data["strides"] = input.strides();
    return dropped(input, rule_of(key, p));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto& saved = context->saved_data;
    auto given = gradients[0];
    const auto strides = saved["strides"].toIntVector();
    if (given.strides() != strides) {
      given = at::empty_strided(saved["sizes"].toIntVector(), strides, given.options()).copy_(given);
    }
    return {apply(given, static_cast<uint64_t>(saved["key"].toInt()), saved["p"].toDouble()), {}, {}};
  }

 private:
  static Rule rule_of(uint64_t key, double p) {
    const double chances = std::round(p * kChances);
    return {key, static_cast<uint32_t>(chances),
            chances == kChances ? 0 : static_cast<float>(kChances / (kChances - chances))};
  }
};

uint64_t drawn_key() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

}  // namespace

at::Tensor dropout(const at::Tensor& input, double p, bool training) {
  const bool type = input.scalar_type() == at::kFloat || input.scalar_type() == at::kBFloat16;
  const bool ours = fused_layers() && training && p > 0 && p <= 1 && input.is_cpu() && type &&
                    input.is_non_overlapping_and_dense() && input.numel() > 0;
  if (!ours) return at::dropout(input, p, training);
  return Dropout::apply(input, drawn_key(), p);
}

}  // namespace ddprun
