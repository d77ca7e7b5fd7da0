// SPDX-License-Identifier: MIT
// Batch normalisation whose statistics can be those of the global batch, on the CPU too.
//
//   ddprun::BatchNorm bn1_{nullptr};
//   bn1_ = register_module("bn1", ddprun::BatchNorm(64));
//   bn2_ = register_module("bn2", ddprun::BatchNorm(ddprun::BatchNormOptions{.channels = 64, .eps = 1e-3}));
//
// A model that uses it instead of torch::nn::BatchNorm2d trains the same bit for bit, under the same names of weights
// and buffers, until the runner attaches the other ranks. From then on mean and variance are those of all ranks'
// samples together.
#pragma once

#include <ddprun/api.h>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>

namespace ddprun {

// The other ranks, as BatchNorm sees them. One object for all layers of a model; called from the thread that calls
// forward, and from the one that LibTorch's backward uses.
class DDPRUN_API BatchStatistics {
 public:
  BatchStatistics();
  virtual ~BatchStatistics();
  BatchStatistics(const BatchStatistics&) = delete;
  BatchStatistics& operator=(const BatchStatistics&) = delete;

  // The sum over all ranks, in place. Every rank calls it equally often, with a float64 vector of the same length, on
  // the device of its input.
  virtual void sum(at::Tensor& values) = 0;

  // False: this rank's samples take part in no statistics, but it joins the sums. For a rank that has no sample in a
  // ragged batch and computes on a borrowed one. Read in forward.
  bool counts = true;
};

// What a BatchNorm is made with.
struct BatchNormOptions {
  int64_t channels = 0;
  double eps = 1e-5;
  double momentum = 0.1;  // what a new batch counts for in the running statistics
  bool scale = true;      // learns a weight
  bool shift = true;      // learns a bias
};

class DDPRUN_API BatchNormImpl : public torch::nn::Module {
 public:
  // `channels` alone leaves the other options at their defaults.
  explicit BatchNormImpl(const BatchNormOptions& options);
  explicit BatchNormImpl(int64_t channels);
  ~BatchNormImpl() override;

  // [B, C], [B, C, L] or [B, C, H, W] in float32 or float64, or in bfloat16 or float16 with statistics in float32; the
  // result has the shape, type and memory format of the input. In training the batch's statistics normalise, and the
  // running ones take them in (the variance with Bessel's correction); in evaluation the running ones normalise. Throws
  // UserError for a training batch of one value per channel, unless synchronised.
  at::Tensor forward(const at::Tensor& input);

  // max_pool_relu(forward(input)), [B, C, H, W] to [B, C, H / 2, W / 2]: normalised, then the largest of each 2 x 2,
  // then cut at 0. On a CPU with the images in channels_last it reads and writes memory a third as often, and agrees
  // with forward() within rounding; elsewhere, and synchronised, it is those operations one after the other. Errors are
  // forward()'s.
  at::Tensor pool_relu(const at::Tensor& input);

  // From now on training batches are normalised over all ranks. The gradients of weight and bias stay those of this
  // rank's samples, as those of all other layers: the runner averages them.
  void synchronize(std::shared_ptr<BatchStatistics> statistics);

  // As LibTorch prints its own layers.
  void pretty_print(std::ostream& stream) const override;

 private:
  void count_batch(const at::Tensor& input);
  const at::Tensor& scale();
  at::Tensor forward_synchronized(const at::Tensor& given);

  const BatchNormOptions options_;
  at::Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
  at::Tensor ones_;  // in place of a weight that is not learned
  std::shared_ptr<BatchStatistics> statistics_;
};

// What a model holds: a shared pointer to a BatchNormImpl, as torch::nn::BatchNorm2d is one.
TORCH_MODULE(BatchNorm);

}  // namespace ddprun
