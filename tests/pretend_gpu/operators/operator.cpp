// SPDX-License-Identifier: MIT
#include "pretend_gpu/operators/operator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty_strided.h>

#include <map>
#include <memory>
#include <mutex>
#include <sstream>

namespace pretend {
namespace {

// Operators that take whole CPU tensors beside those of the device.
const std::set<std::string_view> kMixed{"index",       "index_put_", "_index_put_impl_",   "_unsafe_index",
                                        "index_put",   "_ctc_loss",  "_ctc_loss_backward", "_pack_padded_sequence",
                                        "tensor_split"};

int aliased_argument(const c10::FunctionSchema& schema, const c10::Argument& result) {
  if (!result.alias_info() || !result.alias_info()->isWrite()) return -1;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias && alias->beforeSets() == result.alias_info()->beforeSets()) return static_cast<int>(i);
  }
  return -1;
}

Substitute substitute_of(std::string_view name) {
  for (const auto find : {batch_norm_substitute, attention_substitute}) {
    if (const auto found = find(name)) return found;
  }
  return nullptr;
}

void copy_wrapped_number(const at::Tensor& from, at::Tensor& to) {
  if (from.unsafeGetTensorImpl()->is_wrapped_number()) to.unsafeGetTensorImpl()->set_wrapped_number(true);
}

at::Tensor of_same_form(const at::Tensor& tensor, double number) {
  if (!tensor.defined()) return tensor;
  if (tensor.is_cpu() && tensor.dim() == 0) return tensor.detach().clone();  // the host knows its value
  auto made = at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(tensor.scalar_type()));
  made.fill_(number);
  copy_wrapped_number(tensor, made);
  return made;
}

TensorForm form_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {.sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .type = tensor.scalar_type(),
          .is_defined = true};
}

ResultForm form_of(const IValue& result, bool is_argument) {
  ResultForm form;
  if (is_argument) {
    form.kind = ResultForm::kArgument;
  } else if (result.isTensor()) {
    form.kind = ResultForm::kTensor;
    form.tensors.push_back(form_of(result.toTensor()));
  } else if (result.isTensorList()) {
    form.kind = ResultForm::kTensors;
    for (const at::Tensor& each : result.toTensorVector()) form.tensors.push_back(form_of(each));
  } else {
    form.value = result;
  }
  return form;
}

// All tensors hold this number.
Forms rehearse(const Operator& op, const std::vector<IValue>& arguments, double number) {
  const Below guard;
  Stack stack;
  for (const auto& value : arguments) {
    stack.push_back(changed(value, [&](const at::Tensor& tensor) { return of_same_form(tensor, number); }));
  }
  if (op.generator) stack[*op.generator] = seeded(0);
  const Stack given = stack;
  op.run(stack, 0);
  Forms forms;
  for (size_t i = 0; i < stack.size(); ++i) {
    forms.results.push_back(form_of(stack[i], i < op.aliased.size() && op.aliased[i] >= 0));
  }
  for (const auto i : op.outputs) forms.outputs.push_back(form_of(tensor_or_none(given[i])));
  return forms;
}

// Zeros suit nearly all operators; those that divide by integers, say, need ones.
Forms rehearse(const Operator& op, const std::vector<IValue>& arguments) {
  try {
    return rehearse(op, arguments, 0);
  } catch (const std::exception&) {
    const auto of_zeros = std::current_exception();
    try {
      return rehearse(op, arguments, 1);
    } catch (const std::exception&) {
      std::rethrow_exception(of_zeros);
    }
  }
}

// What the forms depend on, as a key.
class Signature {
 public:
  explicit Signature(const std::string& name) : text_(name) {}

  void add(const IValue& value) {
    text_ += '|';
    if (value.isTensor() || value.isTensorList() ||
        (value.isList() && value.toList().elementType()->str() == "Tensor?")) {
      each_tensor(value, [this](const at::Tensor& tensor) { add(tensor); });
    } else if (value.isInt()) {
      bytes(value.toInt());
    } else if (value.isDouble()) {
      bytes(value.toDouble());
    } else if (value.isIntList()) {
      for (const int64_t each : value.toIntVector()) bytes(each);
    } else if (!value.isGenerator()) {
      std::ostringstream out;
      out << value;
      text_ += out.str();
    }
  }

  const std::string& text() const { return text_; }

 private:
  void add(const at::Tensor& tensor) {
    text_ += tensor.defined() ? 'T' : '-';
    if (!tensor.defined()) return;
    bytes(tensor.scalar_type());
    bytes(tensor.is_cuda());
    bytes(tensor.unsafeGetTensorImpl()->is_wrapped_number());
    for (const auto size : tensor.sizes()) bytes(size);
    text_ += '/';
    for (const auto stride : tensor.strides()) bytes(stride);
  }

  template <class Number>
  void bytes(Number number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  std::string text_;
};

}  // namespace

at::Generator seeded(uint64_t seed) { return at::detail::createCPUGenerator(seed); }

at::Tensor tensor_or_none(const IValue& value) { return value.isNone() ? at::Tensor() : value.toTensor(); }

Operator::Operator(const c10::OperatorHandle& of) : handle(of) {
  const auto& schema = handle.schema();
  name = schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  substitute = substitute_of(schema.name());
  is_random = handle.hasTag(at::Tag::nondeterministic_seeded);
  has_dynamic_outputs = handle.hasTag(at::Tag::dynamic_output_shape) || handle.hasTag(at::Tag::data_dependent_output);
  const auto plain = std::string_view(schema.name()).substr(schema.name().find("::") + 2);
  takes_whole_cpu_tensors = kMixed.count(plain) > 0;
  takes_indices = takes_whole_cpu_tensors && plain.find("index") != std::string_view::npos;
  for (const auto& result : schema.returns()) aliased.push_back(aliased_argument(schema, result));
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    const auto type = argument.type()->str();
    if (type == "Generator?" || type == "Generator" || argument.name() == "generator") generator = i;
    if (argument.is_out()) outputs.push_back(i);
  }
}

void Operator::run(Stack& stack, uint64_t seed) const {
  if (substitute) return substitute(stack, seed);
  handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

const Operator& described(const c10::OperatorHandle& handle) {
  static std::mutex mutex;
  static auto& all = *new std::map<c10::OperatorName, std::unique_ptr<Operator>,
                                   bool (*)(const c10::OperatorName&, const c10::OperatorName&)>(
      [](const c10::OperatorName& a, const c10::OperatorName& b) {
        return std::tie(a.name, a.overload_name) < std::tie(b.name, b.overload_name);
      });
  const std::scoped_lock lock(mutex);
  auto& made = all[handle.operator_name()];
  if (!made) made = std::make_unique<Operator>(handle);
  return *made;
}

const Forms& forms_of(const Operator& op, const std::vector<IValue>& arguments) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::unique_ptr<Forms>>;
  Signature signature(op.name);
  for (const auto& value : arguments) signature.add(value);
  {
    const std::scoped_lock lock(mutex);
    const auto found = known.find(signature.text());
    if (found != known.end()) return *found->second;
  }
  auto forms = std::make_unique<Forms>(rehearse(op, arguments));
  const std::scoped_lock lock(mutex);
  auto& place = known[signature.text()];
  if (!place) place = std::move(forms);
  return *place;
}

}  // namespace pretend
