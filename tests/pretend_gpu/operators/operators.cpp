// SPDX-License-Identifier: MIT
// True numbers on a pretend GPU: each ATen kernel of the CUDA key is replaced by one that lets the CPU's kernel of the
// same operator run on the shadow of the device's memory, as work on the current stream.
//
// At the call only the outputs' forms are needed; outputs come from LibTorch's own allocator. The numbers are computed
// when the stream gets there, and again whenever a graph is replayed. Work holds no storage, so memory is free for the
// next as early as on a GPU. Views, empty, item(), resize_, copies of bytes, the allocator, CUDAGraph and autograd's
// threads are LibTorch's own code.
#include "pretend_gpu/engine.h"
#include "pretend_gpu/operators/operator.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/EmptyTensor.h>
#include <ATen/ops/copy_native.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <set>

namespace pretend {
namespace {

using at::Tensor;
using c10::DispatchKey;
using Arguments = std::vector<IValue>;

// Operators that touch only what the host knows, or whose code for CUDA goes through its API alone.
const std::set<std::string_view> kReal{"empty",
                                       "empty_strided",
                                       "as_strided",
                                       "as_strided_",
                                       "view",
                                       "_reshape_alias",
                                       "resize_",
                                       "resize_as_",
                                       "set_",
                                       "is_set_to",
                                       "unfold",
                                       "_local_scalar_dense",
                                       "record_stream",
                                       "is_pinned",
                                       "_pin_memory",
                                       "alias",
                                       "_copy_from",
                                       "_copy_from_and_resize",
                                       "squeeze_",
                                       "_unsafe_view",
                                       "_efficientzerotensor",
                                       "copy_",
                                       "_resize_output_",
                                       "_fused_sdp_choice"};

// Operators that reach CUDA's libraries from code for all devices, so that they have no kernel of the CUDA key.
const std::set<std::string_view> kAlso{"convolution", "convolution_backward"};

// The bytes of the device's tensor as one of the CPU, which owns nothing. A tensor of the CPU is copied: kernels take
// its value at the call.
Tensor on_host(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const Below guard;
  Tensor made;
  if (!tensor.is_cuda()) {
    made = tensor.detach().clone();
  } else {
    void* bytes = tensor.numel() ? shadow(const_cast<void*>(tensor.const_data_ptr())) : nullptr;
    made = at::from_blob(bytes, tensor.sizes(), tensor.strides(), at::TensorOptions(tensor.scalar_type()));
    if (tensor.is_conj()) made._set_conj(true);
    if (tensor.is_neg()) made._set_neg(true);
  }
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

Stack on_host(const Arguments& arguments) {
  Stack stack;
  for (const auto& value : arguments)
    stack.push_back(changed(value, [](const Tensor& tensor) { return on_host(tensor); }));
  return stack;
}

Tensor made(const TensorForm& form, c10::Device device) {
  if (!form.is_defined) return {};
  return at::empty_strided(form.sizes, form.strides, at::TensorOptions(form.type).device(device));
}

// Where a random operator's numbers begin: known at the call, or, in a graph, in memory that each replay sets anew.
class Seed {
 public:
  explicit Seed(const IValue& chosen) {
    auto generator = chosen.isNone() ? at::cuda::detail::getDefaultCUDAGenerator() : chosen.toGenerator();
    constexpr uint64_t kNumbersPerThread = 4;  // what most kernels ask for
    const std::scoped_lock lock(generator.mutex());
    state_ = at::check_generator<at::CUDAGeneratorImpl>(generator)->philox_cuda_state(kNumbersPerThread);
  }

  bool is_captured() const { return state_.captured_; }

  uint64_t read() const {
    const auto number = [](auto value) { return static_cast<uint64_t>(value); };
    const auto seed = state_.captured_ ? number(*shadow(state_.seed_.ptr)) : number(state_.seed_.val);
    const auto offset =
        state_.captured_ ? number(*shadow(state_.offset_.ptr)) + state_.offset_intragraph_ : number(state_.offset_.val);
    constexpr uint64_t kSpread =
        0x9E3779B97F4A7C15;  // 2^64 / the golden ratio: neighbouring pairs have nothing in common
    return seed * kSpread + offset;
  }

 private:
  at::PhiloxCudaState state_;
};

// The device of the arguments, which must all be on it but for numbers: LibTorch's own words.
c10::Device common_device(const Operator& op, const Arguments& arguments) {
  std::optional<c10::Device> device;
  const auto check = [&](const Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda()) return;
    if (!device) device = tensor.device();
    TORCH_CHECK(*device == tensor.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", *device, " and ",
                tensor.device(), "! (in ", op.name, ")");
  };
  for (const auto& value : arguments) each_tensor(value, check);
  for (const auto& value : arguments) {
    if (device || !value.isDevice() || !value.toDevice().is_cuda()) continue;
    const auto asked = value.toDevice();
    device = asked.has_index() ? asked : c10::Device(at::kCUDA, c10::cuda::current_device());
  }
  TORCH_CHECK(device, "pretend gpu: not pretended: ", op.name, " without a tensor or a device");
  const auto check_cpu = [&](const Tensor& tensor) {
    TORCH_CHECK(op.takes_whole_cpu_tensors || !tensor.defined() || tensor.is_cuda() || tensor.dim() == 0,
                "Expected all tensors to be on the same device, but found at least two devices, ", *device,
                " and cpu! (in ", op.name, ")");
  };
  for (const auto& value : arguments) each_tensor(value, check_cpu);
  return *device;
}

bool has_dynamic_outputs(const Operator& op, const Arguments& arguments) {
  if (!op.takes_indices) return op.has_dynamic_outputs;
  bool dynamic = false;
  each_tensor(arguments[1], [&](const Tensor& index) {  // masks are counted first; numbers are not
    dynamic = dynamic || (index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte));
  });
  return dynamic;
}

// Waits, as a kernel must whose outputs' sizes the host learns from the device.
void run_waiting(const Operator& op, const Arguments& arguments, Stack* stack, c10::Device device) {
  C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream(device.index())));
  Stack results = on_host(arguments);
  {
    const Below guard;
    op.run(results, 0);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (i < op.aliased.size() && op.aliased[i] >= 0) {
      stack->push_back(arguments[static_cast<size_t>(op.aliased[i])]);
    } else {
      stack->push_back(
          changed(results[i], [&](const Tensor& tensor) { return tensor.defined() ? tensor.to(device) : tensor; }));
    }
  }
}

void size_outputs(const Operator& op, const Forms& forms, const Arguments& arguments) {
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    auto out = tensor_or_none(arguments[op.outputs[i]]);
    const auto& form = forms.outputs[i];
    if (!out.defined() || !form.is_defined || out.sizes().equals(form.sizes)) continue;
    const Below guard;
    out.resize_(form.sizes);
    if (out.numel() > 0) out.as_strided_(form.sizes, form.strides);
  }
}

// Outside of captures, attention gives the state of its dropout on the host, written or not
// (ATen/native/transformers/cuda/attention.cu): here always with another number.
bool is_state_on_host(const Operator& op, size_t result, const std::optional<Seed>& seed) {
  return seed && !seed->is_captured() && op.handle.schema().returns()[result].name().rfind("philox_", 0) == 0;
}

// The results on the device; `fresh` gets those that the work has to write, in their order.
std::vector<IValue> make_results(const Operator& op, const Forms& forms, const Arguments& arguments, c10::Device device,
                                 const std::optional<Seed>& seed, std::vector<Tensor>& fresh) {
  const auto make = [&](const TensorForm& form) {
    auto tensor = made(form, device);
    fresh.push_back(on_host(tensor));
    return tensor;
  };
  std::vector<IValue> results;
  for (size_t i = 0; i < forms.results.size(); ++i) {
    const auto& form = forms.results[i];
    if (form.kind == ResultForm::kArgument) {
      results.push_back(arguments[static_cast<size_t>(op.aliased[i])]);
    } else if (form.kind == ResultForm::kTensor && is_state_on_host(op, i, seed)) {
      results.emplace_back(at::scalar_tensor(static_cast<int64_t>(seed->read()), at::kLong));
      fresh.emplace_back();
    } else if (form.kind == ResultForm::kTensor) {
      results.emplace_back(make(form.tensors[0]));
    } else if (form.kind == ResultForm::kTensors) {
      c10::List<Tensor> list;
      for (const auto& each : form.tensors) list.push_back(make(each));
      results.emplace_back(list);
    } else {
      results.push_back(form.value);
    }
  }
  return results;
}

struct Computation {
  const Operator& op;
  Stack arguments;  // on the host, like the results
  std::vector<Tensor> fresh;
  std::optional<Seed> seed;

  // May run several times, in a graph.
  void run() const {
    thread_local const bool has_threads =
        (at::init_num_threads(), true);  // as many as the host's own, for bits depend on it
    static_cast<void>(has_threads);
    const Below guard;
    Stack stack = arguments;
    const auto number = seed ? seed->read() : 0;
    if (seed && op.generator) stack[*op.generator] = seeded(number);
    op.run(stack, number);
    size_t next = 0;
    const auto store = [&](const Tensor& tensor) {
      auto to = fresh[next++];
      if (tensor.defined() && to.defined()) to.copy_(tensor);
    };
    for (size_t i = 0; i < stack.size(); ++i) {
      if (i < op.aliased.size() && op.aliased[i] >= 0) continue;
      if (stack[i].isTensor()) store(stack[i].toTensor());
      if (!stack[i].isTensorList()) continue;
      for (const Tensor& each : stack[i].toTensorVector()) store(each);
    }
  }
};

void on_pretend_gpu(const c10::OperatorHandle& handle, c10::DispatchKeySet, Stack* stack) {
  const auto& op = described(handle);
  const auto count = handle.schema().arguments().size();
  const Arguments arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  torch::jit::drop(*stack, count);
  const auto device = common_device(op, arguments);
  const c10::cuda::CUDAGuard on(device);
  TORCH_CHECK(!op.is_random || op.generator || op.substitute, "pretend gpu: not pretended: the random numbers of ",
              op.name);
  if (has_dynamic_outputs(op, arguments)) return run_waiting(op, arguments, stack, device);

  const auto& forms = forms_of(op, arguments);
  size_outputs(op, forms, arguments);
  auto work = std::make_shared<Computation>(Computation{.op = op, .arguments = on_host(arguments)});
  if (op.is_random) work->seed.emplace(op.generator ? arguments[*op.generator] : IValue());
  auto results = make_results(op, forms, arguments, device, work->seed, work->fresh);
  C10_CUDA_CHECK(enqueue(c10::cuda::getCurrentCUDAStream(), op.name.c_str(), [work] { work->run(); }));
  for (auto& result : results) stack->push_back(std::move(result));
}

// Between memories of one form, and between devices, LibTorch's own code copies bytes. Any other copy on one device is
// a kernel.
bool copy_is_kernel(const Tensor& to, const Tensor& from) {
  if (!to.is_cuda() || to.device() != from.device() || to.numel() == 0 || to.is_same(from)) return false;
  const bool same_bytes = to.scalar_type() == from.scalar_type() && to.sizes().equals(from.sizes()) &&
                          to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg();
  const bool same_order = (to.is_contiguous() && from.is_contiguous()) ||
                          (to.strides().equals(from.strides()) && to.is_non_overlapping_and_dense());
  return !same_bytes || !same_order;
}

Tensor& copy(Tensor& self, const Tensor& source, bool non_blocking) {
  if (!copy_is_kernel(self, source)) return at::native::copy_(self, source, non_blocking);
  at::infer_size(self.sizes(), source.sizes());  // throws where they do not fit
  const c10::cuda::CUDAGuard on(self.device());
  C10_CUDA_CHECK(
      enqueue(c10::cuda::getCurrentCUDAStream(), "aten::copy_", [to = on_host(self), from = on_host(source)]() mutable {
        const Below guard;
        to.copy_(from);
      }));
  return self;
}

// With PRETEND_POISON=2 each new tensor is NaN until it is written, or -1, also in memory that LibTorch's allocator
// gives out again.
Tensor poisoned(Tensor tensor) {
  if (tensor.numel() == 0) return tensor;
  const c10::cuda::CUDAGuard on(tensor.device());
  C10_CUDA_CHECK(
      cudaMemsetAsync(tensor.data_ptr(), 0xFF, tensor.storage().nbytes(), c10::cuda::getCurrentCUDAStream()));
  return tensor;
}

Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
             std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  return poisoned(at::detail::empty_cuda(C10_AS_INTARRAYREF_SLOW(sizes), type, layout, device, pinned, format));
}

Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> type,
                     std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pinned) {
  return poisoned(at::detail::empty_strided_cuda(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides), type,
                                                 layout, device, pinned));
}

bool is_view(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    if (result.alias_info() && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

bool is_replaced(const c10::OperatorHandle& handle) {
  constexpr std::string_view kPrefix = "aten::";
  const std::string_view name = handle.schema().name();
  if (!name.starts_with(kPrefix)) return false;
  const auto plain = name.substr(kPrefix.size());
  const bool reaches_cuda = handle.hasKernelForDispatchKey(DispatchKey::CUDA) && !kReal.count(plain);
  return (reaches_cuda || kAlso.count(plain)) && !is_view(handle.schema());
}

// LibTorch warns of each kernel that is replaced.
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Done while this library is loaded, and for ever.
bool replace_kernels() {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  auto& dispatcher = c10::Dispatcher::singleton();
  auto& library = *new torch::Library(torch::Library::IMPL, "aten", DispatchKey::CUDA, __FILE__, __LINE__);
  int count = 0;
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto handle = dispatcher.findSchema(name);
    if (!handle || !is_replaced(*handle)) continue;
    const auto full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&on_pretend_gpu>());
    ++count;
  }
  library.impl("copy_", torch::dispatch(DispatchKey::CUDA, TORCH_FN(copy)));
  if (setting("POISON", 1) >= 2) {
    library.impl("empty.memory_format", torch::dispatch(DispatchKey::CUDA, TORCH_FN(empty)));
    library.impl("empty_strided", torch::dispatch(DispatchKey::CUDA, TORCH_FN(empty_strided)));
  }
  log(2, "%d operators compute on the CPU", count);
  return true;
}

const bool are_replaced = replace_kernels();

}  // namespace
}  // namespace pretend
