// SPDX-License-Identifier: MIT
#include "features/work/flop_count.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace ddprun {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

at::Tensor tensor_of(Inputs inputs, size_t place) {
  return place < inputs.size() && inputs[place].isTensor() ? inputs[place].toTensor() : at::Tensor();
}

// Returns the tensors from `first` on, or nothing if they have not so many dimensions.
template <size_t kTensors>
std::optional<std::array<at::Tensor, kTensors>> tensors_of(Inputs inputs, size_t first, int64_t dimensions) {
  std::array<at::Tensor, kTensors> tensors;
  for (size_t i = 0; i < kTensors; ++i) {
    tensors[i] = tensor_of(inputs, first + i);
    if (!tensors[i].defined() || tensors[i].dim() < dimensions) return std::nullopt;
  }
  return tensors;
}

// Returns the operations of a product whose left side is input `kLeft`: each of its numbers meets each of the columns.
template <size_t kLeft, bool kRightIsVector = false>
double product(Inputs inputs) {
  const auto sides = tensors_of<2>(inputs, kLeft, 1);
  if (!sides) return 0;
  const auto& [left, right] = *sides;
  const bool has_columns = !kRightIsVector && right.dim() > 1;
  return 2.0 * static_cast<double>(left.numel()) * static_cast<double>(has_columns ? right.size(-1) : 1);
}

// Returns those of attention [B, H, T, E] whose queries are input `kQuery`, with keys and values after it.
template <size_t kQuery, int kTimes = 1>
double attention(Inputs inputs) {
  const auto tensors = tensors_of<3>(inputs, kQuery, 4);
  if (!tensors) return 0;
  const auto& [query, key, value] = *tensors;
  const auto pairs =
      static_cast<double>(query.size(0) * query.size(1) * query.size(2)) * static_cast<double>(key.size(2));
  return kTimes * 2.0 * pairs * static_cast<double>(query.size(3) + value.size(3));
}

double places_of(const at::Tensor& tensor) {
  double places = static_cast<double>(tensor.size(0));
  for (const auto size : tensor.sizes().slice(2)) places *= static_cast<double>(size);
  return places;
}

// Returns the places of a convolution's output, over all samples.
double output_places(const at::Tensor& input, const at::Tensor& weight, Inputs inputs) {
  const auto stride = inputs[3].toIntVector(), padding = inputs[4].toIntVector(), dilation = inputs[5].toIntVector();
  const auto at = [](const std::vector<int64_t>& values, int64_t place) {
    return values[std::min(static_cast<size_t>(place), values.size() - 1)];
  };
  double places = static_cast<double>(input.size(0));
  for (int64_t i = 0; i + 2 < input.dim(); ++i) {
    const auto reach = at(dilation, i) * (weight.size(i + 2) - 1) + 1;
    places *= static_cast<double>((input.size(i + 2) + 2 * at(padding, i) - reach) / at(stride, i) + 1);
  }
  return places;
}

bool are_lists(Inputs inputs, size_t first) {
  return inputs.size() > first + 3 &&
         std::all_of(inputs.begin() + static_cast<std::ptrdiff_t>(first),
                     inputs.begin() + static_cast<std::ptrdiff_t>(first) + 3,
                     [](const auto& value) { return value.isIntList() && !value.toIntVector().empty(); }) &&
         inputs[first + 3].isBool();
}

// Each weight meets each place of the output or, if it is transposed, of the input.
double convolution(Inputs inputs) {
  const auto sides = tensors_of<2>(inputs, 0, 3);
  if (!sides || !are_lists(inputs, 3)) return 0;
  const auto& [input, weight] = *sides;
  const bool is_transposed = inputs[6].toBool();
  const auto places = is_transposed ? places_of(input) : output_places(input, weight, inputs);
  return 2.0 * static_cast<double>(weight.numel()) * places;
}

// As many for the gradient of the input as for that of the weights, if they are asked for.
double convolution_backward(Inputs inputs) {
  constexpr size_t kStride = 4, kMask = 10;
  const auto tensors = tensors_of<3>(inputs, 0, 3);
  if (!tensors || inputs.size() <= kMask || !are_lists(inputs, kStride) || !inputs[kMask].isBoolList()) return 0;
  const auto& [gradient, input, weight] = *tensors;
  const auto wanted = inputs[kMask].toBoolList();
  const auto gradients = static_cast<int>(wanted[0]) + static_cast<int>(wanted[1]);
  const auto places = places_of(inputs[kStride + 3].toBool() ? input : gradient);
  return gradients * 2.0 * static_cast<double>(weight.numel()) * places;
}

// Returns those of a recurrent layer [.., I] whose matrices are given as a list, or one by one.
template <int kTimes = 1>
double recurrent(Inputs inputs) {
  const auto input = tensor_of(inputs, 0);
  if (!input.defined() || input.dim() < 2) return 0;
  double weights = 0;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.dim() == 2) weights += static_cast<double>(tensor.numel());
  };
  if (inputs[1].isTensorList()) {
    for (const auto& tensor : inputs[1].toTensorVector()) add(tensor);
  } else {
    for (size_t place = 1; place < std::min<size_t>(inputs.size(), 3); ++place) add(tensor_of(inputs, place));
  }
  return kTimes * 2.0 * weights * static_cast<double>(input.numel() / std::max<int64_t>(1, input.size(-1)));
}

struct Counted {
  std::string_view name;
  double (*flops)(Inputs);
  bool is_convolution = false;
};

// Operators that call others of these do not stand here, or are counted as a whole. The gradients of attention take
// twice what it took; its kernels compute the scores again besides.
constexpr auto kCounted = std::to_array<Counted>({
    {"aten::mm", product<0>},
    {"aten::bmm", product<0>},
    {"aten::mv", product<0, true>},
    {"aten::dot", product<0, true>},
    {"aten::_int_mm", product<0>},
    {"aten::_scaled_mm", product<0>},
    {"aten::addmm", product<1>},
    {"aten::addmm_", product<1>},
    {"aten::_addmm_activation", product<1>},
    {"aten::baddbmm", product<1>},
    {"aten::baddbmm_", product<1>},
    {"aten::addbmm", product<1>},
    {"aten::addbmm_", product<1>},
    {"aten::addmv", product<1, true>},
    {"aten::addmv_", product<1, true>},
    {"aten::convolution", convolution, true},
    {"aten::_convolution", convolution, true},
    {"aten::convolution_backward", convolution_backward, true},
    {"aten::_scaled_dot_product_flash_attention", attention<0>},
    {"aten::_scaled_dot_product_flash_attention_backward", attention<1, 2>},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention<0>},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention<1, 2>},
    {"aten::_scaled_dot_product_efficient_attention", attention<0>},
    {"aten::_scaled_dot_product_efficient_attention_backward", attention<1, 2>},
    {"aten::_scaled_dot_product_cudnn_attention", attention<0>},
    {"aten::_scaled_dot_product_cudnn_attention_backward", attention<1, 2>},
    {"aten::mkldnn_rnn_layer", recurrent<>},
    {"aten::mkldnn_rnn_layer_backward", recurrent<2>},
    {"aten::_cudnn_rnn", recurrent<>},
    {"aten::_cudnn_rnn_backward", recurrent<2>},
});

struct Within final : at::ObserverContext {
  explicit Within(uint64_t of) : thread(of) {}
  uint64_t thread;
};

}  // namespace

void FlopCount::begin_forward(int64_t samples) {
  samples_ += samples;
  in_backward_ = false;
}

// Backward computes without a graph, unless it computes a block again.
std::unique_ptr<at::ObserverContext> FlopCount::begun(const at::RecordFunction& call) {
  if (call.scope() != at::RecordScope::FUNCTION || (in_backward_ && c10::GradMode::is_enabled())) return nullptr;
  const auto counted = std::ranges::find(kCounted, std::string_view(call.name()), &Counted::name);
  const auto thread = at::RecordFunction::currentThreadId();
  if (counted == kCounted.end() || !within_.insert(thread).second) return nullptr;
  flops_ += counted->flops(call.inputs());
  has_convolutions_ |= counted->is_convolution;
  return std::make_unique<Within>(thread);
}

void FlopCount::ended(const at::RecordFunction&, at::ObserverContext& of_begun) {
  within_.erase(static_cast<Within&>(of_begun).thread);
}

}  // namespace ddprun
