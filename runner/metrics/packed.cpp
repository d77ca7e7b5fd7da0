// SPDX-License-Identifier: MIT
#include "metrics/packed.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace ddprun {
namespace {

at::Tensor packed_on_cpu(at::TensorList numbers) {
  auto packed = at::empty({static_cast<int64_t>(numbers.size())}, at::kDouble);
  auto* next = packed.mutable_data_ptr<double>();
  for (const auto& number : numbers) *next++ = number.item<double>();
  return packed;
}

// cuda_numbers.cpp has that of a GPU.
TORCH_LIBRARY_FRAGMENT(ddprun, library) { library.def("packed(Tensor[] numbers) -> Tensor"); }
TORCH_LIBRARY_IMPL(ddprun, CPU, library) { library.impl("packed", packed_on_cpu); }
TORCH_LIBRARY_IMPL(ddprun, Autograd, library) { library.impl("packed", torch::CppFunction::makeFallthrough()); }

}  // namespace

at::Tensor packed(const std::vector<at::Tensor>& numbers) {
  if (numbers.empty()) return at::empty({0}, at::kDouble);
  static const auto call =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddprun::packed", "").typed<at::Tensor(at::TensorList)>();
  return call.call(numbers);
}

}  // namespace ddprun
