// SPDX-License-Identifier: MIT
#include "step/operator_log.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace ddprun {
namespace {

constexpr size_t kMostShown = 160;  // characters of one entry in an error text

bool is_on(const c10::IValue& value, c10::Device device) {
  if (value.isTensor()) return value.toTensor().defined() && value.toTensor().device() == device;
  return value.isList() && std::ranges::any_of(value.toListRef(), [&](const auto& one) { return is_on(one, device); });
}

// What an operator does with a number of the host in a tensor. Only one that a kernel of the device reads is logged by
// its value: others may be memory that nobody has written yet.
enum class HostNumber { kUnlogged, kRead, kWritten };

HostNumber use_of(const c10::Argument* argument, bool has_device_tensor) {
  const auto* alias = argument ? argument->alias_info() : nullptr;
  if (alias && alias->isWrite()) return HostNumber::kWritten;
  return alias || !has_device_tensor ? HostNumber::kUnlogged : HostNumber::kRead;
}

bool is_host_number(const at::Tensor& tensor, c10::Device device) {
  return !device.is_cpu() && tensor.is_cpu() && tensor.numel() == 1 && tensor.layout() == at::kStrided;
}

// Counts the writes to a number that is kept on the host, which differ from step to step: a replay would not write it.
void print_value(std::ostream& out, const at::Tensor& tensor, c10::Device device, HostNumber use) {
  if (!tensor.defined()) {
    out << "none";
    return;
  }
  out << c10::toString(tensor.scalar_type()) << tensor.sizes();
  if (tensor.device() != device) out << tensor.device();
  if (use == HostNumber::kUnlogged || !is_host_number(tensor, device)) return;
  if (use == HostNumber::kRead) {
    out << "=" << at::_local_scalar_dense(tensor);
  } else if (const auto& writes = tensor.unsafeGetTensorImpl()->version_counter(); writes.enabled()) {
    out << " written " << writes.current_version() << " times";
  }
}

// Writes an argument; other lists, generators and process groups only by their kind.
void print_value(std::ostream& out, const c10::IValue& value, c10::Device device, HostNumber use) {
  if (value.isTensor()) {
    print_value(out, value.toTensor(), device, use);
  } else if (value.isList()) {
    out << "[";
    for (const auto& element : value.toListRef()) {
      print_value(out, element, device, use);
      out << " ";
    }
    out << "]";
  } else if (value.isScalar() || value.isString() || value.isDevice() || value.isNone()) {
    out << value;
  } else {
    out << value.tagKind();
  }
}

// The state with which attention's backward draws the dropout of forward anew, philox_seed and philox_offset in
// native_functions.yaml. In a capture it lies on the device, else on the host, where without dropout nobody writes it.
bool is_dropout_state(const c10::Argument& argument) { return argument.name().starts_with("philox_"); }

bool has_dropout_state(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), is_dropout_state) ||
         std::ranges::any_of(schema.returns(), is_dropout_state);
}

bool waits(const at::RecordFunction& call, c10::Device device) {
  static const std::set<std::string> kWaiting{"aten::_local_scalar_dense", "aten::nonzero"};
  if (device.is_cpu() || !kWaiting.contains(call.name())) return false;
  const auto inputs = call.inputs();
  return !inputs.empty() && is_on(inputs[0], device);
}

// What an operator with the state of a dropout calls is not heard, for that depends on where the state lies.
struct Unheard final : at::ObserverContext {
  Unheard() { ++depth; }
  ~Unheard() override { --depth; }
  Unheard(const Unheard&) = delete;
  Unheard& operator=(const Unheard&) = delete;
  static thread_local int depth;
};
thread_local int Unheard::depth = 0;

// Shows the operator's name and what is around `place`, where it differs from another.
std::string shortened(const std::string& text, size_t place) {
  if (text.size() <= kMostShown) return text;
  const auto name_end = text.find('(') + 1;
  const auto begin = std::max(name_end, place - std::min(place, kMostShown / 4));
  const auto shown = text.substr(begin, kMostShown);
  return text.substr(0, name_end) + (begin > name_end ? "... " : "") + shown +
         (begin + shown.size() < text.size() ? " ..." : "");
}

}  // namespace

std::unique_ptr<at::ObserverContext> OperatorLog::begun(const at::RecordFunction& call) {
  if (!call.operator_name() || Unheard::depth > 0) return nullptr;  // a profiler's range has no name
  std::ostringstream text;
  text.precision(17);
  const auto inputs = call.inputs();
  const auto schema = call.operator_schema();
  const bool of_device = std::ranges::any_of(inputs, [&](const auto& input) { return is_on(input, device_); });
  text << call.name() << "(";
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* argument = schema && i < schema->arguments().size() ? &schema->arguments()[i] : nullptr;
    text << (i == 0 ? "" : ", ");
    if (argument && is_dropout_state(*argument)) {
      text << argument->name();
      continue;
    }
    print_value(text, inputs[i], device_, use_of(argument, of_device));
  }
  text << ")";
  entries_.push_back(text.str());
  if (wait_.empty() && waits(call, device_)) wait_ = call.name();
  if (schema && has_dropout_state(*schema)) return std::make_unique<Unheard>();
  return nullptr;
}

std::string OperatorLog::difference(const OperatorLog& later) const {
  const auto& now = later.entries_;
  const auto [before, after] = std::ranges::mismatch(entries_, now);
  if (before == entries_.end() && after == now.end()) return "";
  const std::string nothing = "nothing";
  const auto& earlier = before == entries_.end() ? nothing : *before;
  const auto& later_one = after == now.end() ? nothing : *after;
  const auto place = static_cast<size_t>(std::ranges::mismatch(earlier, later_one).in1 - earlier.begin());
  return shortened(later_one, place) + ", which was " + shortened(earlier, place);
}

}  // namespace ddprun
