// SPDX-License-Identifier: MIT
// Attention and dropout, which the CPU's kernels compute with its own generator, or not at all: by what
// native_functions.yaml says of each operator. Without dropout, attention is the CPU's fused kernel, which gives the
// bits of a run on the CPU; with it, its definition. Shapes: query [B, H, L, E], key and value [B, H, S, E].
#include "pretend_gpu/operators/operator.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace pretend {
namespace {

using at::Tensor;

struct Attention {
  Tensor query, key, value, bias;
  double dropout = 0;
  bool is_causal = false;
  IValue scale;
  uint64_t seed = 0;

  std::optional<double> given_scale() const { return scale.isNone() ? std::nullopt : std::optional(scale.toDouble()); }
  double factor() const { return given_scale().value_or(1 / std::sqrt(static_cast<double>(query.size(-1)))); }
  std::optional<Tensor> given_bias() const { return bias.defined() ? std::optional(bias) : std::nullopt; }
};

// What the definition computes on its way, in float32.
struct Defined {
  Tensor scores, probabilities, factors;  // [B, H, L, S]; factors of dropout, or undefined

  explicit Defined(const Attention& of) {
    scores = at::matmul(of.query.to(at::kFloat), of.key.to(at::kFloat).transpose(-2, -1)) * of.factor();
    if (of.bias.defined()) scores = scores + of.bias.to(at::kFloat);
    if (of.is_causal) {
      const auto hidden = at::ones({of.query.size(-2), of.key.size(-2)}, at::kBool).triu(1);
      scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    }
    probabilities = at::softmax(scores, -1);
    if (of.dropout > 0) factors = dropout_factors(probabilities.sizes(), of.dropout, of.seed);
  }

  Tensor kept() const { return factors.defined() ? probabilities * factors : probabilities; }
};

std::pair<Tensor, Tensor> forward(const Attention& of) {  // the output and the logarithms of the sums
  if (of.dropout == 0) {
    auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(of.query, of.key, of.value, 0, of.is_causal,
                                                                            of.given_bias(), of.given_scale());
    return {out, logsumexp};
  }
  const Defined made(of);
  return {at::matmul(made.kept(), of.value.to(at::kFloat)).to(of.query.scalar_type()), at::logsumexp(made.scores, -1)};
}

struct Gradients {
  Tensor query, key, value, bias;
};

Gradients backward(const Attention& of, const Tensor& gradient, const Tensor& out, const Tensor& logsumexp,
                   bool wants_bias) {
  if (of.dropout == 0 && !wants_bias) {
    auto [q, k, v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, of.query, of.key, of.value, out, logsumexp, 0, of.is_causal, of.given_bias(), of.given_scale());
    return {q, k, v, {}};
  }
  const Defined made(of);
  const auto type = of.query.scalar_type();
  const auto given = gradient.to(at::kFloat), &p = made.probabilities;
  auto of_p = at::matmul(given, of.value.to(at::kFloat).transpose(-2, -1));
  if (made.factors.defined()) of_p = of_p * made.factors;
  const auto of_scores = p * (of_p - (p * of_p).sum(-1, true));
  return {(at::matmul(of_scores, of.key.to(at::kFloat)) * of.factor()).to(type),
          (at::matmul(of_scores.transpose(-2, -1), of.query.to(at::kFloat)) * of.factor()).to(type),
          at::matmul(made.kept().transpose(-2, -1), given).to(type),
          wants_bias ? at::sum_to(of_scores, of.bias.sizes()).to(type) : Tensor()};
}

// The seed goes to the backward pass in the tensors that hold Philox's state on a GPU.
Tensor held(uint64_t seed) { return at::scalar_tensor(static_cast<int64_t>(seed), at::kLong); }
uint64_t seed_in(const IValue& state) { return static_cast<uint64_t>(state.toTensor().reshape(-1)[0].item<int64_t>()); }

void efficient(Stack& s, uint64_t seed) {
  auto [out, logsumexp] = forward({.query = s[0].toTensor(),
                                   .key = s[1].toTensor(),
                                   .value = s[2].toTensor(),
                                   .bias = tensor_or_none(s[3]),
                                   .dropout = s[5].toDouble(),
                                   .is_causal = s[6].toBool(),
                                   .scale = s[7],
                                   .seed = seed});
  give(s, out, logsumexp, held(seed), held(0));
}

void efficient_backward(Stack& s, uint64_t) {
  const bool wants_bias = s[10].toBoolList()[3];
  auto made = backward({.query = s[1].toTensor(),
                        .key = s[2].toTensor(),
                        .value = s[3].toTensor(),
                        .bias = tensor_or_none(s[4]),
                        .dropout = s[9].toDouble(),
                        .is_causal = s[11].toBool(),
                        .scale = s[12],
                        .seed = seed_in(s[7])},
                       s[0].toTensor(), s[5].toTensor(), s[6].toTensor(), wants_bias);
  give(s, made.query, made.key, made.value, made.bias);
}

void flash(Stack& s, uint64_t seed) {
  const auto query = s[0].toTensor(), key = s[1].toTensor();
  auto [out, logsumexp] = forward({.query = query,
                                   .key = key,
                                   .value = s[2].toTensor(),
                                   .dropout = s[3].toDouble(),
                                   .is_causal = s[4].toBool(),
                                   .scale = s[6],
                                   .seed = seed});
  const auto none = Tensor();
  give(s, out, logsumexp, none, none, query.size(2), key.size(2), held(seed), held(0),
       at::empty({0}, query.scalar_type()));
}

void flash_backward(Stack& s, uint64_t) {
  auto made = backward({.query = s[1].toTensor(),
                        .key = s[2].toTensor(),
                        .value = s[3].toTensor(),
                        .dropout = s[10].toDouble(),
                        .is_causal = s[11].toBool(),
                        .scale = s[14],
                        .seed = seed_in(s[12])},
                       s[0].toTensor(), s[4].toTensor(), s[5].toTensor(), false);
  give(s, made.query, made.key, made.value);
}

// (input, p, train?) -> (output, mask)
void native_dropout(Stack& s, uint64_t seed) {
  const auto input = s[0].toTensor();
  const bool is_training = s[2].isNone() || s[2].toBool();
  if (!is_training) return give(s, input.clone(), at::ones_like(input, at::TensorOptions(at::kBool)));
  const auto factors = dropout_factors(input.sizes(), s[1].toDouble(), seed);
  give(s, input * factors.to(input.scalar_type()), factors.ne(0));
}

}  // namespace

Tensor dropout_factors(at::IntArrayRef sizes, double p, uint64_t seed) {
  const auto kept = at::empty(sizes, at::kFloat).bernoulli_(1 - p, seeded(seed));
  return p < 1 ? kept / (1 - p) : kept;
}

Substitute attention_substitute(std::string_view name) {
  if (name == "aten::_scaled_dot_product_efficient_attention") return efficient;
  if (name == "aten::_scaled_dot_product_efficient_attention_backward") return efficient_backward;
  if (name == "aten::_scaled_dot_product_flash_attention") return flash;
  if (name == "aten::_scaled_dot_product_flash_attention_backward") return flash_backward;
  if (name == "aten::native_dropout") return native_dropout;
  return nullptr;
}

}  // namespace pretend
