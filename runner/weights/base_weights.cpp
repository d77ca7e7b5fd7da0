// SPDX-License-Identifier: MIT
#include "weights/base_weights.h"

#include "base/digest_text.h"
#include "base/log.h"
#include "plugin_host/plugin_call.h"
#include "weights/pretrained_weights.h"
#include "weights/tensor_digest.h"

#include <ddprun/error.h>
#include <ddprun/parameters.h>

#include <ATen/ATen.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace ddprun {
namespace {

// Returns "fc.weight Float [10, 512]": what has the same bytes in another type or shape has another digest.
std::string described(const std::string& name, const at::Tensor& tensor) {
  return log::text(name, " ", tensor.scalar_type(), " ", tensor.sizes());
}

at::Tensor byte_view(const at::Tensor& tensor) { return tensor.contiguous().view(-1).view(at::kByte); }

// Returns whether the weight has these numbers, bit for bit, once they are of its type.
bool holds(const at::Tensor& weight, const at::Tensor& numbers) {
  if (weight.sizes() != numbers.sizes()) return false;
  return at::equal(byte_view(weight), byte_view(numbers.to(weight.options())));
}

[[noreturn]] void refuse_other_base(const LeftOutWeights& left_out, uint64_t found, const std::string& where) {
  throw UserError(log::text(
      where, " leaves out ", left_out.tensors,
      left_out.tensors == 1 ? " parameter that never trains" : " parameters that never train",
      " (checkpoint.only_trainable), and this model has other weights there: their digest is ", digest_text(found),
      ", the checkpoint's manifest says ", digest_text(left_out.digest),
      ". Give the model those that the run began with: the same file of the model, pretrained.file and seed (and data, "
      "if the model adapts its first weights to them)"));
}

}  // namespace

std::string begin_weights(Model& model, const Dataset* data, const PretrainedConfig& config, PretrainedFile file) {
  const bool begins_anew = config.file.empty() || !config.skip.patterns.empty();
  if (begins_anew && data) in_plugin({"model", "initialize"}, [&] { model.initialize(*data); });
  if (config.file.empty() || file == PretrainedFile::kLeave) return "";
  return load_pretrained(model, config).text(config.file);
}

WeightDigests digests_of_weights(const Model& model) {
  WeightDigests digests;
  for (const auto& entry : model.named_parameters()) {
    const auto weight = entry.value().detach().contiguous();
    digests[entry.key()] = digest_of({described(entry.key(), weight)}, {weight});
  }
  return digests;
}

TensorDict with_left_out(TensorDict held, const std::optional<LeftOutWeights>& left_out, const Model& model,
                         const WeightDigests& first, const std::string& where) {
  if (!left_out) return held;
  uint64_t digest = 0;
  std::vector<std::string> missing;
  TensorDict own;
  for (const auto& entry : model.named_parameters()) {
    if (held.contains(entry.key())) continue;
    missing.push_back(entry.key());
    digest += first.at(entry.key());
    own[entry.key()] = entry.value().detach();
  }
  if (std::ssize(missing) != left_out->tensors)
    throw UserError(log::text(where, " does not fit the model: it leaves out ", left_out->tensors,
                              " parameters that never train (checkpoint.only_trainable), and lacks ", missing.size(),
                              " of the model's: ", first_names(missing)));
  if (digest != left_out->digest) refuse_other_base(*left_out, digest, where);
  held.merge(own);
  return held;
}

BaseWeights::BaseWeights(const Model& model, const std::set<std::string>& never_trained, WeightDigests first) {
  for (const auto& entry : model.named_parameters()) {
    const auto& name = entry.key();
    ++all_;
    all_numbers_ += entry.value().numel();
    if (never_trained.contains(name))
      weights_[name] = {entry.value(), digest_of({name}, {entry.value()}), first.at(name)};
  }
}

void BaseWeights::keep_changed(const TensorDict& held) {
  std::erase_if(weights_, [&](const auto& one) {
    const auto other = held.find(one.first);
    return other != held.end() && !holds(one.second.tensor.detach(), other->second);
  });
}

uint64_t BaseWeights::digest() {
  if (is_empty()) return 0;
  std::vector<std::string> names;
  std::vector<at::Tensor> tensors;
  uint64_t expected = 0;
  for (const auto& [name, weight] : weights_) {
    names.push_back(name);
    tensors.push_back(weight.tensor);
    expected += weight.digest;
  }
  const auto found = digest_of(names, tensors);
  if (found == expected) return found;
  std::vector<std::string> changed;
  for (const auto& [name, weight] : weights_)
    if (digest_of({name}, {weight.tensor}) != weight.digest) changed.push_back(name);
  for (const auto& name : changed) weights_.erase(name);
  log::warn(
      "checkpoint.only_trainable: a callback or the model itself has changed what no step trains, so checkpoints "
      "hold it from here on: " +
      first_names(changed));
  return found;
}

std::optional<LeftOutWeights> BaseWeights::left_out() const {
  if (is_empty()) return std::nullopt;
  LeftOutWeights left_out{.tensors = std::ssize(weights_)};
  for (const auto& [name, weight] : weights_) {
    left_out.digest += weight.first;
    left_out.bytes += static_cast<int64_t>(weight.tensor.nbytes());
  }
  return left_out;
}

std::string BaseWeights::text() const {
  if (is_empty()) return log::text("checkpoints have all ", all_, " parameters: each of them trains or has changed");
  int64_t numbers = 0;
  for (const auto& [name, weight] : weights_) numbers += weight.tensor.numel();
  char share[64];
  std::snprintf(share, sizeof share, "%.1f %% of the weights (%.1f MB)",
                100.0 * static_cast<double>(numbers) / static_cast<double>(std::max<int64_t>(1, all_numbers_)),
                static_cast<double>(left_out()->bytes) / 1e6);
  return log::text("checkpoints leave out ", weights_.size(), " of ", all_, " parameters, ", share,
                   ", which never train");
}

}  // namespace ddprun
