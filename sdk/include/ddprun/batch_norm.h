// SPDX-License-Identifier: MIT
// Batch normalization whose statistics can be those of the global batch, on the CPU too.
//
//   ddprun::BatchNorm bn1_{nullptr};
//   bn1_ = register_module("bn1", ddprun::BatchNorm(64));
//   bn2_ = register_module("bn2", ddprun::BatchNorm(ddprun::BatchNormOptions{.channels = 64, .eps = 1e-3}));
//
// A model that uses it instead of torch::nn::BatchNorm2d trains bit for bit the same, with the same names of weights
// and buffers, until the runner attaches the other ranks. From then on, mean and variance are taken over the samples of
// all ranks.
#pragma once

#include <ddprun/api.h>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>

namespace ddprun {

struct NormState;

// The other ranks, as BatchNorm sees them. All layers of a model share one object. It is called from the thread that
// calls forward, and from the one that LibTorch runs backward on.
class DDPRUN_API BatchStatistics {
 public:
  BatchStatistics();
  virtual ~BatchStatistics();
  BatchStatistics(const BatchStatistics&) = delete;
  BatchStatistics& operator=(const BatchStatistics&) = delete;

  // Sums over all ranks, in place. Every rank must make the same number of calls, each with a float64 vector of the
  // same length on the device of its input.
  virtual void sum(at::Tensor& values) = 0;

  // If false, this rank's samples count in no statistics, but it still joins the sums: in a ragged batch, a rank
  // without a sample computes on a borrowed one. Read in forward.
  bool counts = true;
};

// The options of a BatchNorm, as torch::nn::BatchNorm2d has them.
struct BatchNormOptions {
  int64_t channels = 0;
  double eps = 1e-5;
  double momentum = 0.1;  // weight of a new batch in the running statistics
  bool scale = true;      // learn a weight
  bool shift = true;      // learn a bias
};

class DDPRUN_API BatchNormImpl : public torch::nn::Module {
 public:
  // Passing `channels` alone leaves the other options at their defaults.
  explicit BatchNormImpl(const BatchNormOptions& options);
  explicit BatchNormImpl(int64_t channels);
  ~BatchNormImpl() override;

  // Takes [B, C], [B, C, L] or [B, C, H, W] in float32 or float64, or in bfloat16 or float16 with float32 statistics;
  // the result has the shape, type and memory format of the input. In training, normalizes with the batch's statistics
  // and updates the running ones (the variance with Bessel's correction); in evaluation, normalizes with the running
  // ones. Throws UserError for a training batch of one value per channel, unless synchronized.
  at::Tensor forward(const at::Tensor& input);

  // Computes relu(forward(input)), with its shape, type and memory format. In training on a GPU, images in bfloat16 or
  // float16 and channels_last need half of the memory traffic, and agree with forward() within rounding; elsewhere, and
  // if synchronized, it runs those operations one after the other. Throws as forward() does.
  at::Tensor relu(const at::Tensor& input);

  // Computes max_pool_relu(forward(input)), [B, C, H, W] to [B, C, H / 2, W / 2]. On a CPU with the images in
  // channels_last it needs a third of the memory traffic, and agrees with forward() within rounding; elsewhere, and if
  // synchronized, it runs those operations one after the other. Throws as forward() does.
  at::Tensor pool_relu(const at::Tensor& input);

  // From now on, training batches are normalized over all ranks. The gradients of weight and bias remain those of this
  // rank's samples, as in every other layer: the runner averages them.
  void synchronize(std::shared_ptr<BatchStatistics> statistics);

  // Prints the layer in LibTorch's format.
  void pretty_print(std::ostream& stream) const override;

 private:
  void count_batch(const at::Tensor& input);
  NormState state() const;
  const at::Tensor& scale();
  at::Tensor forward_synchronized(const at::Tensor& given);

  const BatchNormOptions options_;
  at::Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
  at::Tensor ones_;  // stands in for a weight that is not learned
  std::shared_ptr<BatchStatistics> statistics_;
};

// The module holder, as torch::nn::BatchNorm2d is one: a shared pointer to a BatchNormImpl.
TORCH_MODULE(BatchNorm);

}  // namespace ddprun
