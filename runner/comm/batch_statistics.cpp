// SPDX-License-Identifier: MIT
#include "comm/batch_statistics.h"

#include <ddprun/error.h>

#include <torch/nn/modules/instancenorm.h>

namespace ddprun {
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
  const auto statistics = std::make_shared<CommunicatorStatistics>(communicator);
  if (communicator.is_distributed()) attach_statistics(model, statistics);
  return statistics;
}

void attach_statistics(Model& model, const std::shared_ptr<BatchStatistics>& statistics) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto* layer = dynamic_cast<BatchNormImpl*>(module.get())) layer->synchronize(statistics);
  }
}

}  // namespace ddprun
