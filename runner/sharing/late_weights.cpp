// SPDX-License-Identifier: MIT
#include "sharing/late_weights.h"

#include "plugin_host/plugin_call.h"

#include <ddprun/arriving_weights.h>
#include <ddprun/optimizer.h>
#include <ddprun/parameters.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <vector>

namespace ddprun {
namespace {

constexpr auto kUnknown = std::numeric_limits<double>::quiet_NaN();

// Weights that are unknown until they are waited for, or until its end. All unknown ones of a type share their memory.
class LateWeights final : public ArrivingWeights {
 public:
  explicit LateWeights(const std::vector<NamedParameter>& parameters) {
    std::map<at::ScalarType, int64_t> most;
    for (const auto& [name, weight] : parameters) {
      auto& numbers = most[weight.scalar_type()];
      numbers = std::max(numbers, weight.numel());
    }
    std::map<at::ScalarType, at::Tensor> unknown;
    for (const auto& [name, weight] : parameters) {
      const auto value = weight.detach();
      auto& numbers = unknown[weight.scalar_type()];
      if (!numbers.defined()) numbers = at::full({most[weight.scalar_type()]}, kUnknown, value.options());
      known_.emplace(weight.unsafeGetTensorImpl(), Known{weight, value});
      weight.set_data(weight.is_non_overlapping_and_dense()
                          ? numbers.as_strided(weight.sizes(), weight.strides())
                          : numbers.narrow(0, 0, weight.numel()).view(weight.sizes()));
    }
  }
  ~LateWeights() override {
    for (const auto& [impl, one] : known_) one.weight.set_data(one.value);
  }
  LateWeights(const LateWeights&) = delete;
  LateWeights& operator=(const LateWeights&) = delete;

  void wait_for(const at::Tensor& weight) override {
    const auto found = known_.find(weight.unsafeGetTensorImpl());
    if (found == known_.end()) return;
    found->second.weight.set_data(found->second.value);
    known_.erase(found);
  }

 private:
  struct Known {
    at::Tensor weight, value;
  };
  std::unordered_map<const c10::TensorImpl*, Known> known_;
};

bool is_nan(const at::Tensor& loss) { return loss.detach().isnan().any().item<bool>(); }

bool reads_too_early(const std::vector<NamedParameter>& parameters, const std::function<at::Tensor()>& loss) {
  LateWeights late(parameters);
  const ArrivingWeightsScope scope(late);
  return is_nan(loss());
}

}  // namespace

void require_waits(Model& model, const std::function<at::Tensor()>& loss) {
  const auto parameters = trainable_parameters(model);
  if (!model.waits_for_weights() || is_nan(loss()) || !reads_too_early(parameters, loss)) return;
  for (const auto& parameter : parameters) {
    if (!reads_too_early({parameter}, loss)) continue;
    throw PluginMistake({"model", "step() reads " + parameter.name +
                                      " before it waits for it, though waits_for_weights() is true: call "
                                      "ddprun::wait_for_weights() first, or return false"});
  }
}

}  // namespace ddprun
