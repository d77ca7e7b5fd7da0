// SPDX-License-Identifier: MIT
// Activation checkpointing (Chen, Xu, Zhang, Guestrin: "Training Deep Nets with Sublinear Memory Cost", 2016): what a
// block of a model would keep for backward is dropped, and computed again when backward first needs it. In forward():
//
//   x = ddprun::recomputed(block1_, x);
//   x = ddprun::recomputed(block2_, x);
//   x = ddprun::recomputed_each(*blocks_, x);
//
// trainer.recompute chooses among these blocks; without it they are computed as always. No bit of the results changes:
// the second time a block finds the random generators, autocast and its buffers as it found them the first time.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

// While it lives, operators of this thread drop what they would keep for backward. Once backward needs it, `again` is
// called, by the thread that runs backward. It calls the same operators in the same order, for inputs of the same
// values; what it returns is not used. An input may not be changed in place before that. Scopes may be nested.
//
// Backward throws UserError if `again` does other than what was done, or if an input was changed.
class DDPRUN_API RecomputeScope {
 public:
  // The inputs of a block, in the order in which it is given them.
  using Tensors = std::vector<at::Tensor>;
  // Computes a block again.
  using Again = std::function<void(const Tensors& inputs)>;

  // Does nothing while no gradients are recorded. `again` gets the inputs without their history. The buffers of
  // `block`, and others that it changes, are before and after it as if it had not been called: running statistics are
  // not updated twice.
  RecomputeScope(const torch::nn::Module& block, const Tensors& inputs, Again again, const Tensors& others = {});
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  bool entered_ = false;
};

// While one lives, of all threads, what blocks drop is kept, too, and compared with what they compute the second time:
// a block whose numbers depend on something else is refused, as by RecomputeScope.
class DDPRUN_API ComparedBlocks {
 public:
  ComparedBlocks();
  ~ComparedBlocks();
  ComparedBlocks(const ComparedBlocks&) = delete;
  ComparedBlocks& operator=(const ComparedBlocks&) = delete;
};

// Returns whether a block of a model is to be computed again in backward, and remembers that it was asked: what asks is
// what trainer.recompute can choose. May be called from any thread.
DDPRUN_API bool is_recomputed(const torch::nn::Module& block);

// Has is_recomputed() answer for the modules of a model, while it lives; one for each model. May be used from any
// thread.
class DDPRUN_API RecomputedBlocks {
 public:
  // Owns `model`, with all modules in it.
  explicit RecomputedBlocks(std::shared_ptr<torch::nn::Module> model);
  ~RecomputedBlocks();
  RecomputedBlocks(const RecomputedBlocks&) = delete;
  RecomputedBlocks& operator=(const RecomputedBlocks&) = delete;

  // Returns the names of the blocks that have asked so far, in the order of the model's modules.
  std::vector<std::string> known() const;

  // Returns the names of all modules of the model, whether they ask or not.
  std::vector<std::string> modules() const;

  // To be called before the first backward of a process that computes blocks again on GPUs, whose threads LibTorch's
  // engine starts there, once.
  static void before_first_backward();

  // From now on these are computed again, and no others of the model.
  void choose(const std::vector<std::string>& names);

 private:
  std::shared_ptr<torch::nn::Module> model_;
};

// Returns forward(input), which is what `block` computes. A copy of `forward` is called again.
template <class Forward>
at::Tensor recomputed(const torch::nn::Module& block, Forward forward, const at::Tensor& input) {
  if (!is_recomputed(block)) return forward(input);
  const RecomputeScope scope(block, {input}, [forward](const auto& inputs) mutable { forward(inputs[0]); });
  return forward(input);
}

// Returns block->forward(input), for a pointer to a module or a holder such as TORCH_MODULE makes.
template <class Block>
at::Tensor recomputed(Block& block, const at::Tensor& input) {
  return recomputed(*block, [block](const at::Tensor& x) mutable { return block->forward(x); }, input);
}

// Returns blocks.forward(input): each of its modules is a block.
DDPRUN_API at::Tensor recomputed_each(torch::nn::SequentialImpl& blocks, const at::Tensor& input);

}  // namespace ddprun
