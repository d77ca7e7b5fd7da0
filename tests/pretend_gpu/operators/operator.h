// SPDX-License-Identifier: MIT
// An ATen operator, whose kernel for CUDA is replaced by the CPU's on the shadow of the device's memory.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pretend {

using c10::IValue;
using torch::jit::Stack;

// Computes an operator for which the CPU has no kernel: takes its arguments from the stack and leaves its results
// there. All tensors are the CPU's. `seed` is where a random operator's numbers begin, 0 in a rehearsal.
using Substitute = void (*)(Stack& stack, uint64_t seed);

Substitute batch_norm_substitute(std::string_view name);  // null: not one of these
Substitute attention_substitute(std::string_view name);

at::Generator seeded(uint64_t seed);  // the CPU's

// 0 where a value is dropped, 1 / (1 - p) elsewhere; for the same seed the same.
at::Tensor dropout_factors(at::IntArrayRef sizes, double p, uint64_t seed);

// For substitutes: an argument that may be none, and the results.
at::Tensor tensor_or_none(const IValue& value);
template <class... Results>
void give(Stack& stack, Results&&... results) {
  stack.clear();
  (stack.emplace_back(std::forward<Results>(results)), ...);
}

// While it lives, operators run as if called by a kernel: below autograd and autocast, unobserved.
struct Below {
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
  const at::DisableRecordFunctionGuard unobserved;
  const c10::InferenceMode no_inference{false};
};

struct Operator {
  explicit Operator(const c10::OperatorHandle& of);

  // The CPU's kernel, or the substitute, under Below.
  void run(Stack& stack, uint64_t seed) const;

  c10::OperatorHandle handle;
  std::string name;  // "aten::add.Tensor"
  Substitute substitute = nullptr;
  bool is_random = false;
  bool has_dynamic_outputs = false;      // whose sizes depend on numbers
  bool takes_whole_cpu_tensors = false;  // beside the device's
  bool takes_indices = false;            // if they are masks, the outputs are dynamic, otherwise not
  std::vector<int> aliased;              // for each result, the argument that it is, or -1
  std::optional<size_t> generator;       // the argument's place
  std::vector<size_t> outputs;           // places of arguments that are written to and sized as needed
};

const Operator& described(const c10::OperatorHandle& handle);

// The argument with each tensor in it replaced, and a device by the CPU.
template <class Change>
IValue changed(const IValue& value, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector()) list.push_back(change(each));
    return list;
  }
  if (value.isList() && value.toList().elementType()->str() == "Tensor?") {
    c10::List<std::optional<at::Tensor>> list;
    for (const IValue& each : value.toListRef()) {
      list.push_back(each.isNone() ? std::optional<at::Tensor>() : change(each.toTensor()));
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) return c10::Device(at::kCPU);
  return value;
}

template <class Visit>
void each_tensor(const IValue& value, const Visit& visit) {
  changed(value, [&](const at::Tensor& tensor) {
    visit(tensor);
    return tensor;
  });
}

// A result of an operator on the device: what it is, and for tensors their forms.
struct TensorForm {
  std::vector<int64_t> sizes, strides;
  at::ScalarType type = at::kFloat;
  bool is_defined = false;
};

struct ResultForm {
  enum Kind { kArgument, kTensor, kTensors, kValue } kind = kValue;
  std::vector<TensorForm> tensors;
  IValue value;
};

struct Forms {
  std::vector<ResultForm> results;
  std::vector<TensorForm> outputs;  // as Operator::outputs
};

// Learns the forms from a run of the CPU's kernel on numbers that do not matter, once for each form of the arguments;
// throws the operator's error where they do not fit, as the device's kernel would at the call.
const Forms& forms_of(const Operator& op, const std::vector<IValue>& arguments);

}  // namespace pretend
