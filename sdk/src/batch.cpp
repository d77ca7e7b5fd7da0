// SPDX-License-Identifier: MIT
#include <ddprun/batch.h>
#include <ddprun/error.h>

namespace ddprun {

const char* split_name(Split split) {
  switch (split) {
    case Split::kTrain: return "train";
    case Split::kVal: return "val";
    case Split::kTest: return "test";
  }
  return "unknown";
}

const at::Tensor& Batch::extra(const std::string& name) const {
  const auto found = extras.find(name);
  if (found != extras.end()) return found->second;
  std::string names;
  for (const auto& [known, tensor] : extras) names += (names.empty() ? "" : ", ") + known;
  throw UserError("the model asks for the extra \"" + name + "\" of a batch; the dataset gives " +
                  (names.empty() ? "none" : names));
}

std::vector<std::pair<std::string, at::Tensor>> Batch::tensors() const {
  std::vector<std::pair<std::string, at::Tensor>> all{{"input", input}, {"target", target}};
  all.insert(all.end(), extras.begin(), extras.end());
  return all;
}

}  // namespace ddprun
