// SPDX-License-Identifier: MIT
#include "comm/shared_buffers.h"

#include <ddprun/batch_norm.h>
#include <ddprun/error.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>

namespace ddprun {
namespace {

bool is_batch_norm(const torch::nn::Module& module) {
  const auto is = [&]<class... Kinds>() { return (... || (dynamic_cast<const Kinds*>(&module) != nullptr)); };
  return is
      .operator()<BatchNormImpl, torch::nn::BatchNorm1dImpl, torch::nn::BatchNorm2dImpl, torch::nn::BatchNorm3dImpl>();
}

}  // namespace

SharedBuffers::SharedBuffers(const Model& model, bool all) : model_(model) {
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
    const bool is_read = !norm->is_training() && !model_.is_kept_in_evaluation(*norm);
    if (is_read) buffers.insert(buffers.end(), own.begin(), own.end());
  }
  return buffers;
}

namespace {

class CommunicatorStatistics final : public BatchStatistics {
 public:
  explicit CommunicatorStatistics(Communicator& communicator) : communicator_(communicator) {}

  void sum(at::Tensor& values) override { communicator_.sum(values); }

 private:
  Communicator& communicator_;
};

template <class... Kinds>
bool is_one_of(const torch::nn::Module& module) {
  return (... || (dynamic_cast<const Kinds*>(&module) != nullptr));
}

// Recognizes a BatchNorm by its buffers, so that modules without a C++ class of their own count too. The statistics of
// instance normalization are per sample and need no other rank.
bool is_foreign_batch_norm(const torch::nn::Module& module) {
  return module.named_buffers(/*recurse=*/false).contains("running_var") &&
         !is_one_of<BatchNormImpl, torch::nn::InstanceNorm1dImpl, torch::nn::InstanceNorm2dImpl,
                    torch::nn::InstanceNorm3dImpl>(module);
}

}  // namespace

std::shared_ptr<BatchStatistics> synchronize_batch_norm(Model& model, Communicator& communicator) {
  std::string foreign;
  for (const auto& entry : model.named_modules()) {
    if (!is_foreign_batch_norm(*entry.value())) continue;
    foreign += (foreign.empty() ? "" : ", ") + (entry.key().empty() ? "the model itself" : entry.key());
  }
  if (!foreign.empty()) {
    throw UserError("model: the statistics of these layers cannot be synchronized over the ranks: " + foreign +
                    ". Use ddprun::BatchNorm (ddprun/batch_norm.h) in place of torch::nn::BatchNorm, under the same "
                    "name: its weights and buffers are the same.");
  }
  if (!communicator.is_distributed()) return nullptr;
  const auto statistics = std::make_shared<CommunicatorStatistics>(communicator);
  attach_statistics(model, statistics);
  return statistics;
}

void attach_statistics(Model& model, const std::shared_ptr<BatchStatistics>& statistics) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto* layer = dynamic_cast<BatchNormImpl*>(module.get())) layer->synchronize(statistics);
  }
}

}  // namespace ddprun
