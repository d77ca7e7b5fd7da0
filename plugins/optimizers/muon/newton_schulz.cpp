// SPDX-License-Identifier: MIT
// See Keller Jordan et al.: "Muon: an optimizer for hidden layers in neural networks", 2024. A step takes each singular
// value s to a s + b s^3 + c s^5; the coefficients are chosen for the steepest rise from 0, not to converge: s ends up
// around 1.
#include "newton_schulz.h"

#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/linalg_vector_norm.h>

namespace ddprun {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kLeastNorm = 1e-12;  // avoids a division by 0

}  // namespace

at::Tensor orthogonalised(const at::Tensor& matrices, int64_t steps, at::ScalarType type) {
  const auto norm_type = at::promote_types(matrices.scalar_type(), at::kFloat);
  const auto norms = at::linalg_vector_norm(matrices, 2, {{1, 2}}, /*keepdim=*/true, norm_type).clamp_min_(kLeastNorm);
  auto x = (matrices / norms).to(type);
  const bool tall = x.size(1) > x.size(2);
  if (tall) x = x.mT();  // the products below then have the size of the shorter side
  for (int64_t step = 0; step < steps; ++step) {
    const auto square = x.bmm(x.mT());
    const auto factor = at::baddbmm(square, square, square, /*beta=*/kB, /*alpha=*/kC);
    x = at::baddbmm(x, factor, x, /*beta=*/kA, /*alpha=*/1);
  }
  return tall ? x.mT() : x;
}

}  // namespace ddprun
