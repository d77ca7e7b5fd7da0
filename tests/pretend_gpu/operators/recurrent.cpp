// SPDX-License-Identifier: MIT
// The cells of recurrent networks, which LibTorch's own loop over steps calls where cuDNN takes no network whole: by
// the equations of torch.nn.LSTM and torch.nn.GRU. Shapes: gates [B, 4 H] of an LSTM, [B, 3 H] of a GRU; states [B, H].
#include "pretend_gpu/operators/operator.h"

#include <ATen/ATen.h>

namespace pretend {
namespace {

using at::Tensor;

Tensor with_bias(const Tensor& gates, const IValue& bias) { return bias.isNone() ? gates : gates + bias.toTensor(); }

// (input_gates, hidden_gates, cx, input_bias?, hidden_bias?) -> (hy, cy, workspace)
void lstm_cell(Stack& s, uint64_t) {
  const auto gates = with_bias(s[0].toTensor(), s[3]) + with_bias(s[1].toTensor(), s[4]);
  const auto raw = gates.chunk(4, 1);
  const auto in = raw[0].sigmoid(), forget = raw[1].sigmoid(), cell = raw[2].tanh(), out = raw[3].sigmoid();
  const auto cy = forget * s[2].toTensor() + in * cell;
  give(s, out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1));
}

// (grad_hy?, grad_cy?, cx, cy, workspace, has_bias) -> (grad_gates, grad_cx, grad_bias)
void lstm_cell_backward(Stack& s, uint64_t) {
  const auto cx = s[2].toTensor(), cy = s[3].toTensor(), tanh = cy.tanh();
  const auto gates = s[4].toTensor().chunk(4, 1);
  const auto &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  const auto given = [&](const IValue& gradient) {
    const auto tensor = tensor_or_none(gradient);
    return tensor.defined() ? tensor : at::zeros_like(cy);
  };
  const auto of_hy = given(s[0]), of_cy = of_hy * out * (1 - tanh * tanh) + given(s[1]);
  const auto of_gates = at::cat({of_cy * cell * (1 - in) * in, of_cy * cx * (1 - forget) * forget,
                                 of_cy * in * (1 - cell * cell), of_hy * tanh * (1 - out) * out},
                                1);
  const auto of_bias = s[5].toBool() ? of_gates.sum(0) : Tensor();
  give(s, of_gates, of_cy * forget, of_bias);
}

// (input_gates, hidden_gates, hx, input_bias?, hidden_bias?) -> (hy, workspace)
void gru_cell(Stack& s, uint64_t) {
  const auto input = with_bias(s[0].toTensor(), s[3]).chunk(3, 1),
             hidden = with_bias(s[1].toTensor(), s[4]).chunk(3, 1);
  const auto hx = s[2].toTensor();
  const auto reset = (input[0] + hidden[0]).sigmoid(), update = (input[1] + hidden[1]).sigmoid();
  const auto fresh = (input[2] + reset * hidden[2]).tanh();
  give(s, fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1));
}

// (grad_hy, workspace, has_bias) -> (grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias, grad_hidden_bias)
void gru_cell_backward(Stack& s, uint64_t) {
  const auto gradient = s[0].toTensor();
  const auto kept = s[1].toTensor().chunk(5, 1);
  const auto &reset = kept[0], &update = kept[1], &fresh = kept[2], &hx = kept[3], &hidden = kept[4];
  const auto of_update = gradient * (hx - fresh) * (1 - update) * update;
  const auto of_fresh = gradient * (1 - update) * (1 - fresh * fresh);
  const auto of_reset = of_fresh * hidden * (1 - reset) * reset;
  const auto of_input = at::cat({of_reset, of_update, of_fresh}, 1);
  const auto of_hidden = at::cat({of_reset, of_update, of_fresh * reset}, 1);
  const bool has_bias = s[2].toBool();
  give(s, of_input, of_hidden, gradient * update, has_bias ? of_input.sum(0) : Tensor(),
       has_bias ? of_hidden.sum(0) : Tensor());
}

// The weights would become views of this one block, for cuDNN; nothing here asks for that.
void flatten_weight(Stack& s, uint64_t) { give(s, at::empty({0}, s[0].toTensorVector().front().scalar_type())); }

}  // namespace

Substitute recurrent_substitute(std::string_view name) {
  if (name == "aten::_thnn_fused_lstm_cell") return lstm_cell;
  if (name == "aten::_thnn_fused_lstm_cell_backward_impl") return lstm_cell_backward;
  if (name == "aten::_thnn_fused_gru_cell") return gru_cell;
  if (name == "aten::_thnn_fused_gru_cell_backward") return gru_cell_backward;
  if (name == "aten::_cudnn_rnn_flatten_weight") return flatten_weight;
  return nullptr;
}

}  // namespace pretend
