// SPDX-License-Identifier: MIT
// Muon (Keller Jordan et al.: "Muon: an optimizer for hidden layers in neural networks", 2024): the momentum of each
// matrix is orthogonalized, so that a step moves all its directions alike. Convolution filters count as matrices [out,
// in * height * width]. Parameters that are not matrices, or that the option `others` names, use stochastic gradient
// descent with Nesterov momentum.
#include "../fused/fused_sgd.h"
#include "directions.h"
#include "newton_schulz.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace {

using ddprun::FusedCall;
using ddprun::NamedParameter;

class Muon final : public ddprun::FusedOptimizer {
 public:
  explicit Muon(ddprun::Options& options)
      : FusedOptimizer(options.get<double>("lr", 0.02, "learning rate of the matrices", {.min = 0}), "Muon's"),
        momentum_{.momentum = options.get<double>("momentum", 0.95, "share of the previous direction that is kept",
                                                  {.min = 0, .max = 1}),
                  .nesterov = options.get<bool>("nesterov", true, "look ahead along the direction")},
        steps_(options.get<int64_t>("ns_steps", 5, "iterations of Newton-Schulz in each step", {.min = 1})),
        normalize_(options.get<bool>("normalize", false, "scale each matrix to the norm sqrt(rows) before the step")),
        precision_(
            options.choose("precision", "auto", {"auto", "bf16", "fp32"},
                           "of the iterations; auto: bf16 on GPUs, otherwise that of the weights, at least fp32")) {
    read_groups(options, 0, "share of each weight that a step of learning rate 1 removes: p *= 1 - lr * this");
    read_others(options);
    remember("momentum", Shape::kLikeParameter);
  }

 private:
  void read_others(ddprun::Options& options) {
    others_ = ddprun::read_pattern_rule(
        options, "others", "matrices that get SGD with Nesterov momentum, as all biases and norms do: \"head.*\"");
    Part part{.whose = "the others"};
    part.lr = options.get<double>("others_lr", 0.01, "learning rate of the others", {.min = 0});
    others_momentum_.momentum =
        options.get<double>("others_momentum", 0.9, "Nesterov momentum of the others", {.min = 0, .max = 1});
    part.weight_decay =
        options.get<double>("others_weight_decay", 0, "L2 penalty of the others, added to the gradient", {.min = 0});
    part.groups = ddprun::read_group_rules(options, "others_groups");
    add_part(std::move(part));
  }

  std::vector<std::vector<NamedParameter>> parts_of(std::vector<NamedParameter> parameters) const override {
    std::vector<ddprun::GroupRule> named;
    if (!others_.patterns.empty()) named.push_back(others_);
    auto dealt = dealt_out(std::move(parameters), named);
    std::vector<std::vector<NamedParameter>> parts(2);
    if (!named.empty()) parts[1] = std::move(dealt[1]);
    for (auto& parameter : dealt[0]) {
      const bool matrix = parameter.value.dim() >= 2;
      if (matrix) refuse_scattered(parameter);
      parts[matrix ? 0 : 1].push_back(std::move(parameter));
    }
    return parts;
  }

  static void refuse_scattered(const NamedParameter& parameter) {
    if (ddprun::is_matrix_in_memory(parameter.value)) return;
    throw ddprun::UserError("muon: the memory of " + parameter.name + " has strides " +
                            c10::str(parameter.value.strides()) + " for sizes " + c10::str(parameter.value.sizes()) +
                            ", which is not a matrix of its first dimension; make it contiguous in the model, or name "
                            "it in the option others");
  }

  void update(const FusedCall& call) override {
    if (call.part == 0) {
      orthogonal_step(call, stacks_.all().empty() ? stacks_ = stacks() : stacks_);
    } else {
      fused_sgd(call, others_momentum_);
    }
  }

  ddprun::Stacks stacks() const {
    ddprun::Stacks stacks;
    for (size_t i = 0; i < groups().size(); ++i) {
      if (part_of_group(i) == 0) stacks.add(groups()[i].parameters);
    }
    return stacks;
  }

  std::vector<ddprun::StepPart> step_parts() const override {
    std::vector<ddprun::StepPart> parts;
    const auto stacks = this->stacks();
    for (const auto& stack : stacks.all()) {
      auto& part = parts.emplace_back();
      for (const auto& [name, value] : stack) {
        part.parameters.push_back(name);
        part.cost += cost_of(value);
      }
    }
    for (size_t i = 0; i < groups().size(); ++i) {
      if (part_of_group(i) == 0) continue;
      for (const auto& [name, value] : groups()[i].parameters)
        parts.push_back({.parameters = {name}, .cost = static_cast<double>(value.numel())});
    }
    return parts;
  }

  // An iteration multiplies the short side's square by itself, and by the matrix, which has made it.
  double cost_of(const at::Tensor& matrix) const {
    constexpr double kOperationsOfANumber = 500;  // take the time of one number in SGD's kernel
    const auto [rows, columns] = ddprun::shape_in_memory(matrix);
    const auto side = static_cast<double>(std::min(rows, columns)), numbers = static_cast<double>(matrix.numel());
    const double operations = 2 * side * side * side + 4 * side * numbers;
    return numbers + static_cast<double>(steps_) * operations / kOperationsOfANumber;
  }

  // Calls SGD's kernel twice, which also handles a step that overflowed: from zero along the gradients with an lr of
  // -1, which makes the directions, and then from the weights along the directions.
  void orthogonal_step(const FusedCall& call, const ddprun::Stacks& stacks) const {
    const auto directions = ddprun::zero_directions(call.parameters, stacks);
    auto gather = call;
    gather.parameters = directions.tensors;
    gather.lr = -1;
    gather.lr_tensor.reset();
    gather.weight_decay = 0;
    fused_sgd(gather, momentum_);

    const auto type = precision_of(call.parameters.front());
    for (const auto& stack : directions.stacks) stack.copy_(ddprun::orthogonalised(stack, steps_, type));

    if (normalize_ && (call.lr_tensor.defined() || call.lr != 0)) normalize(call);
    auto move = call;
    move.gradients = directions.tensors;
    move.memory.clear();
    fused_sgd(move, {});
  }

  at::ScalarType precision_of(const at::Tensor& parameter) const {
    if (precision_ == "bf16" || (precision_ == "auto" && parameter.is_cuda())) return at::kBFloat16;
    return precision_ == "fp32" ? at::kFloat : at::promote_types(parameter.scalar_type(), at::kFloat);
  }

  static void normalize(const FusedCall& call) {
    constexpr double kLeast = 1e-12;  // avoids a division by 0
    const auto type = at::promote_types(call.parameters.front().scalar_type(), at::kFloat);
    std::vector<at::Scalar> wanted;
    for (const auto& parameter : call.parameters)
      wanted.emplace_back(std::sqrt(static_cast<double>(parameter.size(0))));
    const auto norms = at::_foreach_div(at::_foreach_norm(call.parameters, 2, type), wanted);
    auto factors = at::stack(norms).clamp_min_(kLeast).reciprocal_();
    if (call.found_inf) factors = at::where(*call.found_inf == 0, factors, 1);
    if (call.lr_tensor.defined()) factors = at::where(call.lr_tensor != 0, factors, 1);
    at::_foreach_mul_(call.parameters, factors.unbind());
  }

  const ddprun::SgdRule momentum_;
  const int64_t steps_;
  const bool normalize_;
  const std::string precision_;
  ddprun::SgdRule others_momentum_{.nesterov = true};
  ddprun::GroupRule others_;  // has no lr of its own: that is the part's
  ddprun::Stacks stacks_;     // empty before the first step
};

}  // namespace

DDPRUN_OPTIMIZER(Muon, "muon", "orthogonalised momentum for matrices and filters, SGD for the others")
