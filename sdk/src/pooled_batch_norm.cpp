// SPDX-License-Identifier: MIT
#include "pooled_batch_norm.h"

#include "once_differentiable.h"
#include "pooling_loops.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

Channels channels_of(const at::Tensor& tensor) {
  const auto values = tensor.to(at::kFloat).contiguous();
  return Channels(values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel());
}

at::Tensor tensor_of(const Channels& channels) { return at::tensor(channels, at::kFloat); }

// What a channel's values are normalized with.
struct ChannelStatistics {
  Channels mean, inverse_deviation;
};

ChannelStatistics running_statistics(const NormState& state) {
  ChannelStatistics statistics{channels_of(state.running_mean), channels_of(state.running_var)};
  for (auto& value : statistics.inverse_deviation) value = static_cast<float>(1 / std::sqrt(value + state.eps));
  return statistics;
}

// Sums of distances from some value of the channel stay accurate if the mean is far from 0.
Channels some_values(const at::Tensor& input) { return channels_of(input[0].select(1, 0).select(1, 0).to(at::kFloat)); }

void take_in(const at::Tensor& running, size_t channel, double value, double momentum) {
  auto& number = running.mutable_data_ptr<float>()[channel];
  number = static_cast<float>((1 - momentum) * number + momentum * value);
}

ChannelStatistics batch_statistics(const at::Tensor& input, const NormState& state) {
  const auto origin = some_values(input);
  const auto sums = channel_sums(input, origin);
  const auto count = static_cast<double>(input.numel() / input.size(1));
  ChannelStatistics statistics;
  for (size_t c = 0; c < origin.size(); ++c) {
    const double distance = sums.first[c] / count, mean = origin[c] + distance;
    const double squares = std::max(sums.second[c] - sums.first[c] * distance, 0.0);
    statistics.mean.push_back(static_cast<float>(mean));
    statistics.inverse_deviation.push_back(static_cast<float>(1 / std::sqrt(squares / count + state.eps)));
    take_in(state.running_mean, c, mean, state.momentum);
    take_in(state.running_var, c, squares / (count - 1), state.momentum);
  }
  return statistics;
}

Channels signs_of(const Channels& weight) {
  Channels signs;
  for (const float value : weight) signs.push_back(value > 0 ? 1 : value < 0 ? -1 : 0);
  return signs;
}

class PooledBatchNorm : public torch::autograd::Function<PooledBatchNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias, const NormState& state, bool training) {
    RECORD_FUNCTION("ddprun::batch_norm_pool_relu", {});
    const auto statistics = training ? batch_statistics(input, state) : running_statistics(state);
    const auto factor = channels_of(weight);
    auto scale = factor, shift = channels_of(bias);
    for (size_t c = 0; c < scale.size(); ++c) {
      scale[c] *= statistics.inverse_deviation[c];
      shift[c] -= statistics.mean[c] * scale[c];
    }
    const auto pooled = pool(input, signs_of(factor));
    context->save_for_backward({input, weight, pooled.values, pooled.places, tensor_of(statistics.mean),
                                tensor_of(statistics.inverse_deviation)});
    context->saved_data["training"] = training;
    return scale_and_cut(pooled, scale, shift);
  }

  // Using a batch's statistics, dx = weight / deviation * (dy - sum(dy) / n - x^ * sum(dy * x^) / n), x^ = (x - mean) /
  // deviation; with fixed statistics only the first term.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    RECORD_FUNCTION("ddprun::batch_norm_pool_relu_backward", {});
    require_once_differentiable("BatchNorm::pool_relu");
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &places = saved[3];
    const auto mean = channels_of(saved[4]), inverse = channels_of(saved[5]);
    const auto gradient = in_channels_last(gradients[0]);
    const auto sums = gradient_sums(gradient, {saved[2], places}, input, mean);
    NormGradient norm{.factor = channels_of(saved[1]),
                      .slope = Channels(mean.size()),
                      .mean = mean,
                      .constant = Channels(mean.size())};
    Channels weight_gradient, bias_gradient;
    const double count = static_cast<double>(input.numel() / input.size(1));
    for (size_t c = 0; c < mean.size(); ++c) {
      norm.factor[c] *= inverse[c];
      weight_gradient.push_back(static_cast<float>(sums.second[c] * inverse[c]));
      bias_gradient.push_back(static_cast<float>(sums.first[c]));
      if (!context->saved_data["training"].toBool()) continue;
      norm.slope[c] = static_cast<float>(-norm.factor[c] * sums.second[c] / count * inverse[c] * inverse[c]);
      norm.constant[c] = static_cast<float>(-norm.factor[c] * sums.first[c] / count);
    }
    at::Tensor input_gradient;
    if (context->needs_input_grad(0)) input_gradient = spread_through_norm(gradient, places, input, norm);
    return {input_gradient, tensor_of(weight_gradient), tensor_of(bias_gradient), {}, {}};
  }
};

}  // namespace

bool can_norm_in_one_pass(const at::Tensor& input, const NormState& state) {
  return can_pool_in_one_pass(input) && state.running_mean.scalar_type() == at::kFloat && state.running_mean.is_cpu();
}

at::Tensor pooled_batch_norm(const at::Tensor& input, const NormState& state, bool training) {
  const auto constant = [&](double value) { return at::full({input.size(1)}, value, at::kFloat); };
  const auto weight = state.weight.defined() ? state.weight : constant(1);
  const auto bias = state.bias.defined() ? state.bias : constant(0);
  return PooledBatchNorm::apply(input, weight, bias, state, training);
}

}  // namespace ddprun
