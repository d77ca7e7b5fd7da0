// SPDX-License-Identifier: MIT
// A program of torch.export, run operator by operator through LibTorch's dispatcher, as Python does it: autograd,
// autocast and hooks see the same calls in the same order.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace torch::jit {
struct Value;
}
namespace torch::nn {
class Module;
}

namespace ddprun::exported {

// What is passed to an operator.
struct Argument {
  enum class Kind {
    kConstant,
    kValue,          // what a slot of the frame holds
    kValueAsTensor,  // the same, where the operator wants a tensor of what may be a number: x + size
    kList,           // of `elements`
    kDevice,         // the one that the graph runs on, for the one that it was exported on
    kCudnn,          // whether cuDNN may be used: torch.export switches it off while it records
  };
  Kind kind = Kind::kConstant;
  c10::IValue constant = {};
  int slot = -1;
  bool last = false;  // nobody reads the slot afterwards: its value is moved out, so that its memory goes
  std::vector<Argument> elements = {};
  c10::TypePtr element_type = {};
};

// Calls for each argument that reads a slot, the last one first: of cat([x, x]) the second is the last use.
template <class Arguments, class Function>
void for_each_use(Arguments& arguments, const Function& function) {
  for (auto argument = arguments.rbegin(); argument != arguments.rend(); ++argument) {
    if (argument->slot >= 0) function(*argument);
    for_each_use(argument->elements, function);
  }
}

// What a node runs that is no operator: takes the arguments and returns the results.
using Call = std::function<std::vector<c10::IValue>(std::vector<c10::IValue>& arguments, at::Device device)>;

struct Node {
  std::optional<c10::OperatorHandle> op;
  Call call;  // null: the operator is called
  bool skipped =
      false;  // a check of what export saw, which need not hold in other precisions; or a part of another node

  std::vector<Argument> arguments;  // those of the operator's schema, in its order
  std::vector<int> results;         // slots; -1: nobody reads it
  bool unpacks = false;             // the one result is a list of tensors, for the slots
  std::vector<int> unread;          // slots of results that nobody reads
  std::string name;                 // "aten::conv2d", for errors
  std::string place;                // the line of Python that made it: "net.py:12"
  std::string module;               // the innermost module of Python that it is of: "layer1.0.conv1"
};

// Nodes one after the other, which backward may compute again (<ddprun/recompute.h>).
struct Block {
  std::string path = {};  // of the module of Python that they are; empty: they are a part of the network (parts.h)
  size_t begin = 0, end = 0;
  std::set<int> inputs = {};   // slots that they read and others fill
  std::set<int> changed = {};  // those of Graph::state that they change
  std::shared_ptr<torch::nn::Module> module = nullptr;
  std::vector<at::Tensor> buffers = {};  // that they change, some of which may be the module's
};

class Graph {
 public:
  // The values while the graph runs, and where it runs.
  struct Frame {
    std::vector<c10::IValue> slots;
    at::Device device;
    std::vector<torch::jit::Value*> sizes = {};  // by slot, while TorchScript is recorded (recorder.h); else empty
  };

  // Returns the results. Throws UserError that names the operator that failed and its line in Python; out of memory and
  // what a lost rank causes are passed on.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, at::Device device) const;

  std::vector<int> inputs;  // slots; -1: nobody reads it
  std::vector<Node> nodes;
  std::vector<Argument> outputs;
  std::vector<Block> blocks;  // apart, in the order of the nodes
  std::set<int> state;        // slots of the model's tensors, which blocks may change
  size_t slots = 0;
  std::vector<double> bytes;  // of the tensors in the slots, as they were exported; 0: not known, or no tensor

  // Sets Argument::last and Node::unread, once the graph is complete.
  void mark_last_uses();

 private:
  void run_nodes(size_t begin, size_t end, Frame& frame) const;
  void run_recomputed(const Block& block, Frame& frame) const;
  void wait_for_weights(const Node& node, const Frame& frame) const;
  void execute(const Node& node, Frame& frame, std::vector<c10::IValue>& stack) const;
};

// Return what runs a block of torch: with torch.set_grad_enabled(...), with torch.autocast(...), torch.cond(...).
Call grad_mode_block(Graph body);
Call autocast_block(Graph body);
Call condition(Graph if_true, Graph if_false);

// Returns a number as Python passes it for a tensor: x * 2 does not make x float64.
at::Tensor number_as_tensor(const at::Scalar& number);

}  // namespace ddprun::exported
