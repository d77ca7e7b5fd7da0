// SPDX-License-Identifier: MIT
#include "step/traced_model.h"

#include "base/log.h"

#include <ddprun/error.h>
#include <ddprun/fused_layers.h>

#include <ATen/ATen.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/types.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace ddprun {
namespace {

using Forward = std::function<at::Tensor(const at::Tensor&)>;

constexpr int64_t kTracedBatch = 2, kOtherBatch = 3;
constexpr double kTolerance = 1e-4;  // relative; eagerly and recorded, LibTorch may sum in another order

std::string first_sentence(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, std::min(text.find('\n'), text.find(". ")));
}

// Gives `target` the tensors and modules of `source`, by the same names.
void mirror(const torch::nn::Module& source, torch::jit::Module& target) {
  target.register_attribute("training", c10::BoolType::get(), false);
  for (const auto& one : source.named_parameters(/*recurse=*/false))
    target.register_parameter(one.key(), one.value(), /*is_buffer=*/false);
  for (const auto& one : source.named_buffers(/*recurse=*/false)) target.register_buffer(one.key(), one.value());
  for (const auto& one : source.named_children()) {
    torch::jit::Module child(c10::QualifiedName("__torch__.Module"), target._ivalue()->compilation_unit(),
                             /*shouldMangle=*/true);
    mirror(*one.value(), child);
    target.register_module(one.key(), child);
  }
}

class Trace {
 public:
  Trace(Model& model, const TraceForm& form) : model_(model), form_(form), forward_(forward()) {}

  torch::jit::Module make() const {
    const torch::NoGradGuard no_gradients;
    const FusedLayersScope plain(false);  // LibTorch's own operations: the SDK's are known only to ddprun
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    model_.eval();
    const auto other = example(kOtherBatch);
    const auto expected = eager(other);
    if (!alike(expected, eager(other)))
      throw UserError("its evaluation draws random numbers: what is recorded of it would be something else each time");
    auto module = record();
    compare(module, other, expected);
    return module;
  }

 private:
  Forward forward() const {
    if (!form_.raw) return [this](const at::Tensor& input) { return prediction(input); };
    const auto per_channel = [](const std::vector<double>& values) {
      return at::tensor(values, at::kDouble).to(at::kFloat).view({1, -1, 1, 1});
    };
    const auto black = per_channel(form_.data.bytes->black);
    const auto step = (per_channel(form_.data.bytes->white) - black) / 255;
    return [this, black, step](const at::Tensor& input) {
      return at::softmax(prediction(input.to(at::kFloat) * step + black), 1);
    };
  }

  at::Tensor prediction(const at::Tensor& input) const {
    return model_.predict({.input = input, .target = {}, .index = {}});
  }

  // Numbers that every model of such data takes: for symbols and classes those below the number of classes.
  at::Tensor example(int64_t batch) const {
    auto shape = form_.data.spec.sample_shape;
    shape.insert(shape.begin(), batch);
    const auto type = form_.raw ? at::kByte : form_.data.input_type;
    auto generator = at::make_generator<at::CPUGeneratorImpl>(/*seed=*/7);
    if (at::isFloatingType(type)) return at::randn(shape, generator, at::kFloat).to(type);
    const auto below = form_.raw ? 256 : std::clamp<int64_t>(form_.data.spec.classes, 1, 127);
    return at::randint(below, shape, generator, at::kLong).to(type);
  }

  at::Tensor eager(const at::Tensor& input) const {
    const auto output = forward_or_refuse(input);
    if (!output.defined()) throw UserError("its forward() returns no tensor");
    const auto classes = form_.data.spec.classes;
    if (form_.raw && (output.dim() != 2 || output.size(1) != classes))
      throw UserError(log::text("--raw gives the probabilities of ", classes, " classes, and its forward() gives ",
                                output.sizes(), " for a batch of ", input.size(0)));
    return output;
  }

  at::Tensor forward_or_refuse(const at::Tensor& input) const try { return forward_(input); } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError("its forward() fails: " + first_sentence(error));
  }

  torch::jit::Module record() const {
    torch::jit::Module self("__torch__.Model", std::make_shared<torch::jit::CompilationUnit>());
    mirror(model_, self);
    const auto call = [&](torch::jit::Stack inputs) {
      return torch::jit::Stack{forward_(std::move(inputs.at(0)).toTensor())};
    };
    const auto no_name = [](const torch::autograd::Variable&) { return std::string(); };
    std::shared_ptr<torch::jit::tracer::TracingState> state;
    try {
      state = torch::jit::tracer::trace({example(kTracedBatch)}, call, no_name, /*strict=*/true,
                                        /*force_outplace=*/false, &self, {"input"})
                  .first;
    } catch (const UserError&) {
      throw;
    } catch (const std::exception& error) {
      throw UserError("its forward() cannot be recorded: " + first_sentence(error));
    }
    const auto unit = self._ivalue()->compilation_unit();
    auto* function = unit->create_function(c10::QualifiedName(*self.type()->name(), "forward"), state->graph);
    self.type()->addMethod(function);
    return self;
  }

  void compare(torch::jit::Module& module, const at::Tensor& input, const at::Tensor& expected) const {
    if (gives(module, input, expected)) return;
    const auto own = example(kTracedBatch);
    if (!gives(module, own, eager(own)))
      throw UserError(
          "what is recorded of its forward() gives other numbers: it depends on more than input and weights");
    throw UserError(log::text("its forward() keeps the size of the batch that it is recorded with, and would fail on ",
                              "others: input.size(0) is a number there; write x.flatten(1) or x.reshape({-1, n}) in ",
                              "the place of x.reshape({x.size(0), n})"));
  }

  static bool gives(torch::jit::Module& module, const at::Tensor& input, const at::Tensor& expected) try {
    return alike(expected, module.forward({input}).toTensor());
  } catch (const std::exception&) {
    return false;
  }

  static bool alike(const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && at::allclose(a, b, kTolerance, kTolerance, /*equal_nan=*/true);
  }

  Model& model_;
  const TraceForm& form_;
  const Forward forward_;
};

}  // namespace

torch::jit::Module traced(Model& model, const TraceForm& form) { return Trace(model, form).make(); }

}  // namespace ddprun
