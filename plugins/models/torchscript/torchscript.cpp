// SPDX-License-Identifier: MIT
// Trains a module written in Python and exported with torch.jit.script(module).save("network.pt"). Its parameter and
// buffer tensors themselves are registered under their Python names: optimizer, gradient exchange and checkpoints see
// them, and a checkpoint's weights fit module.load_state_dict().
#include <ddprun/error.h>
#include <ddprun/model.h>

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Returns the error's first sentence: the rest is advice for other mistakes.
std::string cause(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, std::min(text.find('\n'), text.find(". ")));
}

torch::jit::Module open_archive(const std::string& file) try {
  return torch::jit::load(file, torch::kCPU);
} catch (const std::exception& error) {
  throw ddprun::UserError("torchscript: " + file + " is not a TorchScript archive (" + cause(error) +
                          "). Export the module in Python: torch.jit.script(module).save(\"network.pt\"); torch.save() "
                          "writes another format.");
}

// Checks that forward(input) takes one tensor and returns one, and that all other arguments have defaults.
void check_forward(const torch::jit::Module& module, const std::string& file) {
  const auto method = module.find_method("forward");
  if (!method) throw ddprun::UserError("torchscript: the module in " + file + " has no method forward");
  const auto& schema = method->function().getSchema();
  const auto& arguments = schema.arguments();  // the first one is self
  const auto& tensor = *c10::TensorType::get();
  const bool takes_one = arguments.size() >= 2 && tensor.isSubtypeOf(*arguments[1].type()) &&
                         std::all_of(arguments.begin() + 2, arguments.end(),
                                     [](const auto& argument) { return argument.default_value().has_value(); });
  const bool gives_one = schema.returns().size() == 1 && schema.returns()[0].type()->isSubtypeOf(tensor);
  if (takes_one && gives_one) return;
  throw ddprun::UserError(c10::str("torchscript: forward in ", file, " is ", schema,
                                   "; expected one tensor as input and one as result: forward(self, input) -> Tensor. "
                                   "Wrap the module in one that picks what the objective takes."));
}

// The code of a script module's forward, in its present mode: its tensors are inputs that follow its arguments, and its
// other attributes are constants. What it would assign to an attribute is left out.
class Lowered {
 public:
  explicit Lowered(const torch::jit::Module& module) : graph_(module.get_method("forward").graph()->copy()) {
    for (int depth = 0; depth < kMostDepth && has_calls(graph_->block()); ++depth) torch::jit::Inline(*graph_);
    objects_.emplace(graph_->inputs()[0], module._ivalue());
    lower(graph_->block());
    for (auto* node : std::views::reverse(modules_)) {
      TORCH_CHECK(!node->output()->hasUses(),
                  "it passes a module on, which cannot be recorded: ", *node->output()->uses()[0].user);
      node->destroy();
    }
    graph_->eraseInput(0);
    torch::jit::ConstantPropagation(graph_);
  }

  std::shared_ptr<torch::jit::Graph> graph() const { return graph_; }
  const std::vector<at::IValue>& tensors() const { return tensors_; }

 private:
  static constexpr int kMostDepth = 100;  // of methods that call methods; one pass need not go through all

  static bool has_calls(torch::jit::Block* block) {
    return std::any_of(block->nodes().begin(), block->nodes().end(), [](torch::jit::Node* node) {
      const bool is_call = node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
      return is_call || std::ranges::any_of(node->blocks(), has_calls);
    });
  }

  void lower(torch::jit::Block* block) {
    const std::vector<torch::jit::Node*> nodes(block->nodes().begin(), block->nodes().end());
    for (auto* node : nodes) {
      for (auto* inner : node->blocks()) lower(inner);
      if (node->kind() == c10::prim::SetAttr) {
        node->destroy();
      } else if (node->kind() == c10::prim::GetAttr) {
        replace(node);
      }
    }
  }

  void replace(torch::jit::Node* node) {
    const auto value = objects_.at(node->input())->getAttr(node->s(c10::attr::name));
    if (value.isObject()) {
      objects_.emplace(node->output(), value.toObject());
      modules_.push_back(node);
      return;
    }
    const torch::jit::WithInsertPoint here(node);
    node->output()->replaceAllUsesWith(value.isTensor() ? input(value.toTensor()) : graph_->insertConstant(value));
    node->destroy();
  }

  torch::jit::Value* input(const at::Tensor& tensor) {
    auto& made = inputs_[tensor.unsafeGetTensorImpl()];
    if (!made) {
      made = graph_->addInput()->setType(c10::TensorType::get());
      tensors_.emplace_back(tensor);
    }
    return made;
  }

  std::shared_ptr<torch::jit::Graph> graph_;
  std::map<const torch::jit::Value*, c10::intrusive_ptr<c10::ivalue::Object>> objects_;
  std::vector<torch::jit::Node*> modules_;  // that read one of another
  std::map<const c10::TensorImpl*, torch::jit::Value*> inputs_;
  std::vector<at::IValue> tensors_;
};

class TorchScript final : public ddprun::Model {
 public:
  explicit TorchScript(ddprun::Options& options)
      : file_(options.require<fs::path>("file",
                                        "file of torch.jit.script(module).save(); a traced module works too, but "
                                        "stays in the mode, training or evaluation, that it was traced in")) {
    if (options.has("file") && !fs::is_regular_file(file_)) {
      options.reject("file", "no such file: " + file_.string());
    }
  }

  void prepare(const ddprun::DataSpec&) override {
    script_ = open_archive(file_);
    check_forward(*script_, file_);
    adopt(*this, *script_);
    const auto all = parameters();
    if (std::ranges::none_of(all, [](const auto& parameter) { return parameter.requires_grad(); })) {
      throw ddprun::UserError("torchscript: the module in " + file_.string() +
                              " has no parameters to train: was it frozen (torch.jit.freeze) or made with "
                              "requires_grad=False?");
    }
    script_->train(is_training());
  }

  at::Tensor forward(const at::Tensor& input) override {
    // The optimizing executor rewrites the graph after its first calls, which changes the rounding: a resumed run would
    // differ.
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    if (torch::jit::tracer::isTracing()) return recorded(input);
    auto output = script_->forward({input}).toTensor();
    keep_buffers();
    return output;
  }

  void train(bool on) override {
    Model::train(on);
    if (!script_) return;
    script_->train(on);
    for (auto& [ours, script] : layers_)
      if (is_kept_in_evaluation(*ours)) script.eval();
  }

 private:
  struct Buffer {
    torch::jit::Module owner;
    std::string name;
    at::Tensor registered;
  };

  // Registers a script module's tensors, and those of its children, in a module of ours.
  void adopt(torch::nn::Module& ours, const torch::jit::Module& script) {
    for (const auto& parameter : script.named_parameters(/*recurse=*/false)) {
      ours.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
    }
    for (const auto& buffer : script.named_buffers(/*recurse=*/false)) {
      buffers_.push_back({script, buffer.name, ours.register_buffer(buffer.name, buffer.value)});
    }
    for (const auto& child : script.named_children()) {
      const auto layer = ours.register_module(child.name, std::make_shared<torch::nn::Module>(child.name));
      layers_.emplace_back(layer, child.value);
      adopt(*layer, child.value);
    }
  }

  // What `ddprun export` records knows the tensors that are registered here, and not the script module that has them
  // too.
  at::Tensor recorded(const at::Tensor& input) {
    const auto& forward = script_->get_method("forward").function();
    Lowered code(*script_);
    torch::jit::Stack stack{input};
    const auto& arguments = forward.getSchema().arguments();
    for (size_t i = 2; i < arguments.size(); ++i) stack.push_back(*arguments[i].default_value());
    stack.insert(stack.end(), code.tensors().begin(), code.tensors().end());
    torch::jit::GraphExecutor(code.graph(), "forward").run(stack);
    return std::move(stack.at(0)).toTensor();
  }

  // A forward that assigns a buffer anew (self.count = self.count + 1) replaces the registered tensor: copies the value
  // back into that one and puts it back in place.
  void keep_buffers() {
    const torch::NoGradGuard no_gradients;
    for (auto& buffer : buffers_) {
      const auto current = buffer.owner.attr(buffer.name).toTensor();
      if (current.is_same(buffer.registered)) continue;
      buffer.registered.copy_(current);
      buffer.owner.setattr(buffer.name, buffer.registered);
    }
  }

  const fs::path file_;
  std::optional<torch::jit::Module> script_;
  std::vector<Buffer> buffers_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, torch::jit::Module>> layers_;
};

}  // namespace

DDPRUN_MODEL(TorchScript, "torchscript",
             "a module written in Python, exported with torch.jit.script, which PyTorch has deprecated: see exported")
