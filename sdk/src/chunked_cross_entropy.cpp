// SPDX-License-Identifier: MIT
#include "chunked_cross_entropy.h"

#include "once_differentiable.h"

#include <ddprun/objective.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace ddprun {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kLarge = int64_t{1} << 24;  // logits; 64 MiB in float32
constexpr int64_t kChunk = int64_t{1} << 22, kMostChunks = 32;

// Calls for one chunk of rows after the other, with its first row and their number: as many as are worth a kernel's
// launch. A GPU's kernels read rows that begin alike in a chunk and in the whole alike.
int64_t rows_of_chunk(const at::Tensor& logits) {
  constexpr int64_t kAlike = 16;
  const auto rows = logits.size(0);
  const auto divided = [](int64_t number, int64_t by) { return (number + by - 1) / by; };
  const auto wanted = std::max(divided(kChunk, logits.size(1)), divided(rows, kMostChunks));
  return std::min(rows, divided(wanted, kAlike) * kAlike);
}

template <class Call>
void for_each_chunk(const at::Tensor& logits, Call call) {
  const auto rows = logits.size(0), step = rows_of_chunk(logits);
  for (int64_t first = 0; first < rows; first += step) call(first, std::min(step, rows - first));
}

at::ScalarType wide_type(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Memory for the numbers of one chunk after the other, in the type that losses are computed in.
at::Tensor room_for_chunk(const at::Tensor& logits) {
  return at::empty({rows_of_chunk(logits), logits.size(1)}, logits.options().dtype(wide_type(logits)));
}

// Makes the log-probabilities of chunks.
class LogSoftmax {
 public:
  explicit LogSoftmax(const at::Tensor& logits) : logits_(logits), result_(room_for_chunk(logits)) {
    if (logits.scalar_type() != result_.scalar_type()) wide_ = at::empty_like(result_);
  }

  // Returns those of these rows, until the next call.
  at::Tensor operator()(int64_t first, int64_t rows) {
    auto chunk = logits_.narrow(0, first, rows);
    if (wide_.defined()) chunk = wide_.narrow(0, 0, rows).copy_(chunk);
    auto result = result_.narrow(0, 0, rows);
    at::_log_softmax_out(result, chunk, 1, false);
    return result;
  }

 private:
  const at::Tensor& logits_;
  at::Tensor result_, wide_;  // the second of logits in 16 bits
};

// Of each row of logits the log-probability of its target, [N, 1], 0 if that does not count; and if they are asked for,
// the sum of all of its log-probabilities, [N].
class LogProbabilities : public torch::autograd::Function<LogProbabilities> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& target,
                               bool with_sums) {
    const auto picked = at::empty({logits.size(0), 1}, logits.options().dtype(wide_type(logits)));
    const auto sums = with_sums ? at::empty({logits.size(0)}, picked.options()) : at::Tensor();
    LogSoftmax log_softmax(logits);
    for_each_chunk(logits, [&](int64_t first, int64_t rows) {
      const auto chunk = log_softmax(first, rows);
      const auto losses = at::nll_loss_nd(chunk, target.narrow(0, first, rows), {}, at::Reduction::None, kIgnoredClass);
      picked.narrow(0, first, rows).copy_(losses.neg().unsqueeze(1));
      if (with_sums) sums.narrow(0, first, rows).copy_(chunk.sum(1));
    });
    context->save_for_backward({logits, target});
    return with_sums ? variable_list{picked, sums} : variable_list{picked};
  }

  static variable_list backward(AutogradContext* context, variable_list given) {
    require_once_differentiable("cross_entropy of many classes");
    const auto saved = context->get_saved_variables();
    const auto &logits = saved[0], &target = saved[1];
    const auto places = target.masked_fill(target.eq(kIgnoredClass), 0).unsqueeze(1);
    const auto result = at::empty(logits.sizes(), logits.options());
    const auto room = room_for_chunk(logits);
    const auto wide = logits.scalar_type() == room.scalar_type() ? at::Tensor() : at::empty_like(room);
    const bool has_sums = given.size() > 1 && given[1].defined();
    LogSoftmax log_softmax(logits);
    for_each_chunk(logits, [&](int64_t first, int64_t rows) {
      const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, first, rows); };
      const auto chunk = log_softmax(first, rows);
      auto gradient = room.narrow(0, 0, rows);
      has_sums ? gradient.copy_(part(given[1]).unsqueeze(1).expand_as(chunk)) : gradient.zero_();
      if (given[0].defined()) gradient.scatter_add_(1, part(places), part(given[0]));
      auto made = wide.defined() ? wide.narrow(0, 0, rows) : part(result);
      at::_log_softmax_backward_data_out(made, gradient, chunk, 1, chunk.scalar_type());
      if (wide.defined()) part(result).copy_(made);
    });
    return {result, {}, {}};
  }
};

}  // namespace

bool are_many(const at::Tensor& logits) { return logits.dim() == 2 && logits.numel() >= kLarge; }

// The means are LibTorch's own, over as many rows in the same order.
at::Tensor chunked_cross_entropy(const at::Tensor& logits, const at::Tensor& target, double label_smoothing) {
  const auto rows = LogProbabilities::apply(logits, target, label_smoothing > 0);
  const auto is_ignored = target.eq(kIgnoredClass);
  const auto loss =
      at::nll_loss_nd(rows[0], target.masked_fill(is_ignored.logical_not(), 0), {}, at::Reduction::Mean, kIgnoredClass);
  if (label_smoothing == 0) return loss;
  const auto spread = (-rows[1]).masked_fill(is_ignored, 0.0).sum() / is_ignored.logical_not().sum();
  return (1 - label_smoothing) * loss + spread * (label_smoothing / static_cast<double>(logits.size(1)));
}

}  // namespace ddprun
