// SPDX-License-Identifier: MIT
#include "cli/tensor_difference.h"

#include "base/log.h"

#include <ATen/ATen.h>

namespace ddprun {
namespace {

// Returns the bits of each number as a whole number.
at::Tensor bits_of(const at::Tensor& tensor) {
  switch (tensor.element_size()) {
    case 1: return tensor.contiguous().view(at::kByte);
    case 2: return tensor.contiguous().view(at::kShort);
    case 4: return tensor.contiguous().view(at::kInt);
    case 8: return tensor.contiguous().view(at::kLong);
    default: return at::view_as_real(tensor.contiguous()).view(at::kLong);
  }
}

// Returns numbers whose distance counts the floating-point numbers between; undefined for another type.
at::Tensor ordinals_of(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  if (type != at::kHalf && type != at::kBFloat16 && type != at::kFloat) return {};
  const auto bits = bits_of(tensor).to(at::kLong);
  const auto least = type == at::kFloat ? int64_t{-1} << 31 : int64_t{-1} << 15;
  return at::where(bits < 0, least - bits, bits);
}

std::string units_text(const at::Tensor& one, const at::Tensor& other) {
  const auto first = ordinals_of(one), second = ordinals_of(other);
  if (!first.defined() || !second.defined()) return "";
  const auto units = (first - second).abs().max().item<int64_t>();
  return log::text(" (", units, units == 1 ? " unit" : " units", " in the last place)");
}

}  // namespace

bool same_bits(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && one.scalar_type() == other.scalar_type() && bits_of(one).equal(bits_of(other));
}

std::string difference_text(const at::Tensor& one, const at::Tensor& other) {
  if (one.sizes() != other.sizes() || one.scalar_type() != other.scalar_type()) return "another shape or type";
  if (one.numel() == 0) return "no numbers";
  const auto by = (one.to(at::kDouble) - other.to(at::kDouble)).abs();
  return log::text(bits_of(one).ne(bits_of(other)).sum().item<int64_t>(), " of ", one.numel(), " numbers, by up to ",
                   by.max().item<double>(), units_text(one, other));
}

}  // namespace ddprun
