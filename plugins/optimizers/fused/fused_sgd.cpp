// SPDX-License-Identifier: MIT
#include "fused_sgd.h"

#include <ATen/ops/_fused_sgd.h>

#include <algorithm>

namespace ddprun {
namespace {

using Tensors = std::vector<at::Tensor>;

// On the CPU the kernel leaves most of a 16-bit parameter unchanged and misreads its buffer: pytorch/pytorch#191763.
bool kernel_fails(const at::Tensor& parameter) { return parameter.is_cpu() && parameter.element_size() == 2; }

Tensors widened(const Tensors& tensors) {
  Tensors wide;
  for (const auto& tensor : tensors) wide.push_back(tensor.to(at::kFloat));
  return wide;
}

void copy_back(const Tensors& wide, const Tensors& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(wide[i]);
}

void step_in_float32(const FusedCall& call, const SgdRule& rule) {
  auto wide = call;
  wide.parameters = widened(call.parameters);
  wide.gradients = widened(call.gradients);
  std::ranges::transform(call.memory, wide.memory.begin(), widened);
  fused_sgd(wide, rule);
  copy_back(wide.parameters, call.parameters);
  for (size_t kind = 0; kind < call.memory.size(); ++kind) copy_back(wide.memory[kind], call.memory[kind]);
}

}  // namespace

void fused_sgd(const FusedCall& call, const SgdRule& rule) {
  if (kernel_fails(call.parameters.front())) return step_in_float32(call, rule);
  const bool without = call.memory.empty() || rule.momentum == 0;  // the kernel refuses a buffer that it does not need
  const auto buffers = without ? at::TensorList() : at::TensorList(call.memory[0]);
  call.with_lr([&](const auto& lr) {
    at::_fused_sgd_(call.parameters, call.gradients, buffers, call.weight_decay, rule.momentum, lr, rule.dampening,
                    rule.nesterov, /*maximize=*/false, call.first_step, /*grad_scale=*/{}, call.found_inf);
  });
}

}  // namespace ddprun
