// SPDX-License-Identifier: MIT
#include "comm/shared_buffers.h"

#include <ddprun/batch_norm.h>

#include <torch/nn/modules/batchnorm.h>

namespace ddprun {
namespace {

bool is_batch_norm(const torch::nn::Module& module) {
  const auto is = [&]<class... Kinds>() { return (... || (dynamic_cast<const Kinds*>(&module) != nullptr)); };
  return is
      .operator()<BatchNormImpl, torch::nn::BatchNorm1dImpl, torch::nn::BatchNorm2dImpl, torch::nn::BatchNorm3dImpl>();
}

}  // namespace

SharedBuffers::SharedBuffers(const Model& model, bool all) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto own = module->buffers(/*recurse=*/false);
    if (!all && is_batch_norm(*module)) {
      statistics_.push_back({module, std::move(own)});
    } else {
      always_.insert(always_.end(), own.begin(), own.end());
    }
  }
  const auto own = model.buffers(/*recurse=*/false);
  always_.insert(always_.end(), own.begin(), own.end());
}

std::vector<at::Tensor> SharedBuffers::read_by_step() const {
  auto buffers = always_;
  for (const auto& [norm, own] : statistics_) {
    if (!norm->is_training()) buffers.insert(buffers.end(), own.begin(), own.end());
  }
  return buffers;
}

}  // namespace ddprun
