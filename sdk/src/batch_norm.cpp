// SPDX-License-Identifier: MIT
#include "activated_batch_norm.h"
#include "pooled_batch_norm.h"

#include <ddprun/batch_norm.h>
#include <ddprun/error.h>
#include <ddprun/pooling.h>

#include <ATen/Context.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_elemt.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

namespace ddprun {
namespace {

// Statistics of the global batch, per channel in the type of the statistics; the count is a float64 scalar. All are on
// the input's device: nothing here waits for a GPU.
struct Statistics {
  at::Tensor mean, variance, unbiased_variance, count;
};

at::Tensor local_sums(const at::Tensor& input, const at::TensorOptions& type, bool counts) {
  const auto channels = input.size(1);
  if (!counts) return at::zeros({2 * channels + 1}, type.dtype(at::kDouble));
  const auto samples = static_cast<double>(input.numel() / channels);
  // The CPU kernel takes running statistics only for their type, which becomes that of the result.
  const auto running = [&] { return input.is_cuda() ? at::Tensor() : at::zeros({channels}, type); };
  const auto [mean, variance] = at::batch_norm_update_stats(input, running(), running(), /*momentum=*/0);
  const auto means = mean.to(at::kDouble), variances = variance.to(at::kDouble);
  return at::cat({at::full({1}, samples, means.options()), means * samples, (variances + means.square()) * samples});
}

// Exchanges 2C + 1 numbers once: the count, the sums and the sums of squares. The difference of squares that gives the
// variance loses (mean / deviation)^2 of float64's precision, far less than the float32 statistics of each rank have
// lost.
Statistics global_statistics(const at::Tensor& input, BatchStatistics& others) {
  const auto channels = input.size(1);
  const auto type = input.options().dtype(at::toOpMathType(input.scalar_type()));
  auto sums = local_sums(input, type, others.counts);
  others.sum(sums);
  const auto count = sums[0].clamp_min(1);
  const auto mean = sums.slice(0, 1, 1 + channels) / count;
  const auto variance = (sums.slice(0, 1 + channels) / count - mean.square()).clamp_min(0);
  const auto unbiased = variance * (count / (count - 1).clamp_min(1));
  return {mean.to(type), variance.to(type), unbiased.to(type), count};
}

// LibTorch's kernels for the passes over one layer's data: those of SyncBatchNorm on a GPU; on the CPU, which lacks
// them, those for fixed statistics, given the global ones. Everything but the input is per channel, in the type of the
// statistics.
struct Passes {
  at::Tensor input, weight, mean, variance, inverse_deviation;
  double eps;

  at::Tensor normalized(const at::Tensor& factor, const at::Tensor& shift) const {
    if (input.is_cuda()) return at::batch_norm_elemt(input, factor, shift, mean, inverse_deviation, eps);
    return std::get<0>(
        at::native_batch_norm(input, factor, shift, mean, variance, /*training=*/false, /*momentum=*/0, eps));
  }

  // Returns the gradients of input, weight and bias as if the statistics were constants. On a GPU the first is
  // undefined, since input_gradient() does not need it there.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> gradients(const at::Tensor& gradient, bool of_input) const {
    if (!input.is_cuda()) {
      return at::native_batch_norm_backward(gradient, input, weight, mean, variance, {}, {}, /*train=*/false, eps,
                                            {of_input, true, true});
    }
    const auto sums = at::batch_norm_backward_reduce(gradient, input, mean, inverse_deviation, weight,
                                                     /*input_g=*/false, /*weight_g=*/true, /*bias_g=*/true);
    return {at::Tensor(), std::get<2>(sums), std::get<3>(sums)};
  }

  // Returns the whole gradient of the input, from the first of gradients() and the means over all samples of dy and of
  // dy * x^.
  at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& by_constants, const at::Tensor& mean_dy,
                            const at::Tensor& mean_dy_x) const {
    if (input.is_cuda()) {
      const auto one = at::ones({1}, input.options().dtype(at::kInt));  // makes sums of means
      return at::batch_norm_backward_elemt(gradient, input, mean, inverse_deviation, weight, mean_dy,
                                           mean_dy_x / inverse_deviation, one);
    }
    const auto slope = weight * inverse_deviation;
    return by_constants.sub_(normalized(mean_dy_x * slope, mean_dy * slope));
  }
};

// The GPU kernels need an input and its gradient in the same memory order, without gaps.
at::Tensor dense(const at::Tensor& tensor, const at::Tensor& as) {
  return tensor.is_cuda() ? tensor.contiguous(as.suggest_memory_format()) : tensor;
}

// Carries the ranks from forward to backward.
struct Others : torch::CustomClassHolder {
  explicit Others(std::shared_ptr<BatchStatistics> statistics_) : statistics(std::move(statistics_)) {}
  const std::shared_ptr<BatchStatistics> statistics;
};

// y = x^ * weight + bias with x^ = (x - mean) / deviation, where mean and variance are functions of the inputs of all
// ranks:
//
//   dx = weight / deviation * (dy - sum(dy) / n - x^ * sum(dy * x^) / n)
//
// The sums are the gradients of bias and weight. They run over the outputs of all ranks, so the shares may be ragged
// and each rank's loss have a weight of its own. A rank whose samples do not count has the first term alone.
class GlobalBatchNorm : public torch::autograd::Function<GlobalBatchNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias, const Statistics& batch, double eps,
                            const std::shared_ptr<BatchStatistics>& others) {
    const Passes passes{input, weight, batch.mean, batch.variance, (batch.variance + eps).rsqrt(), eps};
    context->save_for_backward({input, weight, passes.mean, passes.variance, passes.inverse_deviation, batch.count});
    context->saved_data["eps"] = eps;
    context->saved_data["counts"] = others->counts;
    context->saved_data["others"] = c10::IValue::make_capsule(c10::make_intrusive<Others>(others));
    return passes.normalized(weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& count = saved[5];
    const Passes passes{saved[0], saved[1], saved[2], saved[3], saved[4], context->saved_data["eps"].toDouble()};
    const auto gradient = dense(gradients[0], passes.input);
    auto [input_gradient, weight_gradient, bias_gradient] = passes.gradients(gradient, context->needs_input_grad(0));
    if (context->needs_input_grad(0)) {
      auto sums = at::cat({bias_gradient, weight_gradient}).to(at::kDouble);
      others_of(context).sum(sums);
      auto means = (sums / count).to(passes.mean.scalar_type()).view({2, -1});
      if (!context->saved_data["counts"].toBool()) means.zero_();
      input_gradient = passes.input_gradient(gradient, input_gradient, means[0], means[1]);
    }
    return {input_gradient, weight_gradient, bias_gradient, {}, {}, {}};
  }

 private:
  static BatchStatistics& others_of(torch::autograd::AutogradContext* context) {
    return *c10::static_intrusive_pointer_cast<Others>(context->saved_data["others"].toCapsule())->statistics;
  }
};

}  // namespace

BatchStatistics::BatchStatistics() = default;
BatchStatistics::~BatchStatistics() = default;

BatchNormImpl::BatchNormImpl(const BatchNormOptions& options) : torch::nn::Module("BatchNorm"), options_(options) {
  TORCH_CHECK(options.channels > 0, "BatchNorm needs at least one channel, not ", options.channels);
  if (options.scale) weight_ = register_parameter("weight", torch::ones({options.channels}));
  if (options.shift) bias_ = register_parameter("bias", torch::zeros({options.channels}));
  running_mean_ = register_buffer("running_mean", torch::zeros({options.channels}));
  running_var_ = register_buffer("running_var", torch::ones({options.channels}));
  num_batches_tracked_ = register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong));
}

BatchNormImpl::BatchNormImpl(int64_t channels) : BatchNormImpl(BatchNormOptions{.channels = channels}) {}
BatchNormImpl::~BatchNormImpl() = default;

void BatchNormImpl::synchronize(std::shared_ptr<BatchStatistics> statistics) { statistics_ = std::move(statistics); }

// Refuses batches that cannot be normalized.
void BatchNormImpl::count_batch(const at::Tensor& input) {
  TORCH_CHECK(input.dim() >= 2 && input.size(1) == options_.channels, "BatchNorm of ", options_.channels,
              " channels takes [B, ", options_.channels, ", ...], not ", input.sizes());
  if (!is_training()) return;
  num_batches_tracked_.add_(1);
  if (statistics_ || input.numel() > options_.channels) return;
  throw UserError(c10::str("BatchNorm in training needs more than one value per channel, but a batch is ",
                           input.sizes(),
                           ": choose another trainer.global_batch, so that no rank's part of the last batch of an "
                           "epoch is a single sample"));
}

at::Tensor BatchNormImpl::forward(const at::Tensor& input) {
  count_batch(input);
  if (is_training() && statistics_) return forward_synchronized(input);
  return at::batch_norm(input, scale(), bias_, running_mean_, running_var_, is_training(), options_.momentum,
                        options_.eps, at::globalContext().userEnabledCuDNN());
}

// A weight that is not learned is replaced by a constant: CUDA's kernels give the bias gradient the shape of the
// weight.
const at::Tensor& BatchNormImpl::scale() {
  if (options_.scale) return weight_;
  const auto like = running_mean_.options();
  const bool fits = ones_.defined() && ones_.device() == like.device() && ones_.dtype() == like.dtype();
  if (!fits) ones_ = at::ones({options_.channels}, like);
  return ones_;
}

NormState BatchNormImpl::state() const {
  return {weight_, bias_, running_mean_, running_var_, options_.eps, options_.momentum};
}

at::Tensor BatchNormImpl::relu(const at::Tensor& input) {
  auto norm = state();
  if (!is_training() || statistics_ || !can_activate_in_one_pass(input, norm)) return forward(input).relu_();
  count_batch(input);
  norm.weight = scale();
  return activated_batch_norm(input, norm);
}

at::Tensor BatchNormImpl::pool_relu(const at::Tensor& input) {
  const bool synchronized = is_training() && statistics_;
  if (synchronized || !can_norm_in_one_pass(input, state())) return max_pool_relu(forward(input));
  count_batch(input);
  return pooled_batch_norm(input, state(), is_training());
}

at::Tensor BatchNormImpl::forward_synchronized(const at::Tensor& given) {
  const auto input = dense(given, given);
  Statistics batch;
  {
    const torch::NoGradGuard no_gradients;
    batch = global_statistics(input, *statistics_);
    running_mean_.mul_(1 - options_.momentum).add_(batch.mean, options_.momentum);
    running_var_.mul_(1 - options_.momentum).add_(batch.unbiased_variance, options_.momentum);
  }
  const auto type = batch.mean.scalar_type();
  const auto bias = options_.shift ? bias_.to(type) : at::zeros_like(batch.mean);
  return GlobalBatchNorm::apply(input, scale().to(type), bias, batch, options_.eps, statistics_);
}

void BatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "ddprun::BatchNorm(" << options_.channels << ", eps=" << options_.eps
         << ", momentum=" << options_.momentum << ", scale=" << options_.scale << ", shift=" << options_.shift << ")";
}

}  // namespace ddprun
