// SPDX-License-Identifier: MIT
#include "graph.h"

#include "recorder.h"

#include <ddprun/arriving_weights.h>
#include <ddprun/error.h>
#include <ddprun/recompute.h>

#include <ATen/Context.h>
#include <ATen/ScalarOps.h>
#include <ATen/TracerMode.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <optional>
#include <stdexcept>
#include <typeinfo>
#include <utility>

namespace ddprun::exported {
namespace {

using c10::IValue;

IValue value_of(const Argument& argument, Graph::Frame& frame);

IValue list_of(const Argument& argument, Graph::Frame& frame) {
  const auto fill = [&](auto values) {
    values.reserve(argument.elements.size());
    for (const auto& one : argument.elements) values.push_back(value_of(one, frame));
    return IValue(std::move(values));
  };
  return fill(c10::impl::GenericList(argument.element_type));
}

IValue value_of(const Argument& argument, Graph::Frame& frame) {
  switch (argument.kind) {
    case Argument::Kind::kConstant: return argument.constant;
    case Argument::Kind::kValue: {
      auto& slot = frame.slots[static_cast<size_t>(argument.slot)];
      return argument.last ? std::move(slot) : slot;
    }
    case Argument::Kind::kValueAsTensor: {
      const auto& value = frame.slots[static_cast<size_t>(argument.slot)];
      return value.isTensor() ? value : IValue(number_as_tensor(value.toScalar()));
    }
    case Argument::Kind::kList: return list_of(argument, frame);
    case Argument::Kind::kDevice: return frame.device;
    case Argument::Kind::kCudnn: return at::globalContext().userEnabledCuDNN();
  }
  return {};
}

// torch.autocast's __enter__ and __exit__: without the nesting, weights that were cast in the step before would be
// kept.
class Autocast {
 public:
  explicit Autocast(at::DeviceType device)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device)),
        caches_(at::autocast::is_autocast_cache_enabled()),
        type_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, enabled_);
    at::autocast::set_autocast_dtype(device_, type_);
    at::autocast::set_autocast_cache_enabled(caches_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const at::DeviceType device_;
  const bool enabled_, caches_;
  const at::ScalarType type_;
};

std::vector<IValue> rest_of(std::vector<IValue>& values, size_t first) {
  return {std::make_move_iterator(values.begin() + static_cast<std::ptrdiff_t>(first)),
          std::make_move_iterator(values.end())};
}

std::string first_sentence(const std::string& text) {
  return text.substr(0, std::min({text.find('\n'), text.find(". "), size_t{300}}));
}

[[noreturn]] void fail(const Node& node, const std::string& problem) {
  throw UserError(c10::str(node.place, ": ", node.name, ": ", first_sentence(problem)));
}

}  // namespace

// Takes whether gradients are on, and the body's values.
Call grad_mode_block(Graph body) {
  return [body = std::move(body)](std::vector<IValue>& arguments, at::Device device) {
    const c10::AutoGradMode mode(arguments.at(0).toBool());
    return body.run(rest_of(arguments, 1), device);
  };
}

// Takes device type, number type, whether it is on, whether casts are cached, and the body's values.
Call autocast_block(Graph body) {
  return [body = std::move(body)](std::vector<IValue>& arguments, at::Device device) {
    const auto asked = at::Device(arguments.at(0).toStringRef()).type();
    const auto type = asked == at::kCPU ? device.type() : asked;  // it was exported on a CPU, for any device
    const Autocast restored_afterwards(type);
    at::autocast::set_autocast_enabled(type, arguments.at(2).toBool());
    if (!arguments.at(1).isNone()) at::autocast::set_autocast_dtype(type, arguments.at(1).toScalarType());
    if (!arguments.at(3).isNone()) at::autocast::set_autocast_cache_enabled(arguments.at(3).toBool());
    return body.run(rest_of(arguments, 4), device);
  };
}

// Takes the predicate and a list of the bodies' values.
Call condition(Graph if_true, Graph if_false) {
  return [yes = std::move(if_true), no = std::move(if_false)](std::vector<IValue>& arguments, at::Device device) {
    const auto& predicate = arguments.at(0);
    const bool holds = predicate.isTensor() ? predicate.toTensor().item<bool>() : predicate.toBool();
    std::vector<IValue> operands;
    for (auto& argument : rest_of(arguments, 1)) {
      if (!argument.isList()) {
        operands.push_back(std::move(argument));
        continue;
      }
      for (const IValue& one : argument.toListRef()) operands.push_back(one);
    }
    return (holds ? yes : no).run(std::move(operands), device);
  };
}

at::Tensor number_as_tensor(const at::Scalar& number) {
  auto tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

std::vector<IValue> Graph::run(std::vector<IValue> given, at::Device device) const {
  TORCH_CHECK(given.size() == inputs.size(), "the block takes ", inputs.size(), " values, not ", given.size());
  Frame frame{.slots = std::vector<IValue>(slots), .device = device};
  if (is_recording()) frame.sizes.resize(slots);
  for (size_t i = 0; i < given.size(); ++i) {
    if (inputs[i] >= 0) frame.slots[static_cast<size_t>(inputs[i])] = std::move(given[i]);
  }
  size_t done = 0;
  for (const auto& block : blocks) {
    if (is_recording() || !is_recomputed(*block.module)) continue;
    run_nodes(done, block.begin, frame);
    run_recomputed(block, frame);
    done = block.end;
  }
  run_nodes(done, nodes.size(), frame);
  std::vector<IValue> results;
  for (const auto& output : outputs) results.push_back(value_of(output, frame));
  return results;
}

void Graph::run_nodes(size_t begin, size_t end, Frame& frame) const {
  std::vector<IValue> stack;
  for (size_t i = begin; i < end; ++i)
    if (!nodes[i].skipped) execute(nodes[i], frame, stack);
}

void Graph::run_recomputed(const Block& block, Frame& frame) const {
  struct Given {
    int slot;
    bool is_input;  // of the scope, which gives it to the second run
    IValue value;
  };
  std::vector<at::Tensor> tensors;
  std::vector<Given> given;
  for (const int slot : block.inputs) {
    const auto& value = frame.slots[static_cast<size_t>(slot)];
    const bool is_input = value.isTensor() && value.toTensor().defined() && !state.contains(slot);
    if (is_input) tensors.push_back(value.toTensor());
    given.push_back({slot, is_input, is_input ? IValue() : value});
  }
  const auto again = [this, &block, given = std::move(given), device = frame.device](const auto& tensors_again) {
    Frame second{.slots = std::vector<IValue>(slots), .device = device};
    auto input = tensors_again.begin();
    for (const auto& one : given)
      second.slots[static_cast<size_t>(one.slot)] = one.is_input ? IValue(*input++) : one.value;
    run_nodes(block.begin, block.end, second);
  };
  const RecomputeScope scope(*block.module, tensors, again, block.buffers);
  run_nodes(block.begin, block.end, frame);
}

// Waits for those of the model's tensors that a node reads.
void Graph::wait_for_weights(const Node& node, const Frame& frame) const {
  for_each_use(node.arguments, [&](const Argument& use) {
    const auto& value = frame.slots[static_cast<size_t>(use.slot)];
    if (state.contains(use.slot) && value.isTensor()) wait_for_weight(value.toTensor());
  });
}

void Graph::execute(const Node& node, Frame& frame, std::vector<IValue>& stack) const try {
  RECORD_USER_SCOPE(node.place);  // for profiles, and for `ddprun replay`
  stack.clear();
  if (weights_are_arriving()) wait_for_weights(node, frame);
  for (const auto& argument : node.arguments) stack.push_back(value_of(argument, frame));
  auto* recorded = frame.sizes.empty() ? nullptr : record(node, frame, stack);
  std::optional<at::tracer::impl::NoTracerDispatchMode> is_recorded;
  if (recorded) is_recorded.emplace();
  if (node.call) {
    stack = node.call(stack, frame.device);
  } else {
    node.op->callBoxed(stack);
  }
  if (node.unpacks) {
    const auto list = std::move(stack.at(0)).toTensorVector();
    stack.assign(list.begin(), list.end());
  }
  TORCH_CHECK(stack.size() >= node.results.size(), "it gives ", stack.size(), " results, and was recorded with ",
              node.results.size());
  if (recorded) record_results(*recorded, node, frame, stack);
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (node.results[i] >= 0) frame.slots[static_cast<size_t>(node.results[i])] = std::move(stack[i]);
  }
  for (const int slot : node.unread) frame.slots[static_cast<size_t>(slot)] = IValue();
} catch (const UserError&) {  // of a node in a block
  throw;
} catch (const c10::OutOfMemoryError&) {
  throw;
} catch (const c10::DistError&) {
  throw;
} catch (const c10::Error& error) {
  fail(node, error.what_without_backtrace());
} catch (const std::runtime_error& error) {
  if (typeid(error) != typeid(std::runtime_error)) throw;  // the runner's own: another rank is lost
  fail(node, error.what());
}

void Graph::mark_last_uses() {
  std::vector<bool> read(slots);
  const auto mark = [&](std::vector<Argument>& arguments) {
    for_each_use(arguments, [&](Argument& argument) {
      const auto slot = static_cast<size_t>(argument.slot);
      argument.last = !read[slot];
      read[slot] = true;
    });
  };
  mark(outputs);
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    for (const int slot : node->results) {
      if (slot >= 0 && !read[static_cast<size_t>(slot)]) node->unread.push_back(slot);
    }
    if (!node->skipped) mark(node->arguments);
  }
}

}  // namespace ddprun::exported
