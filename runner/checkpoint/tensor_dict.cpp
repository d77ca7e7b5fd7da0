// SPDX-License-Identifier: MIT
#include "checkpoint/tensor_dict.h"

#include <array>
#include <stdexcept>

namespace ddprun {
namespace {

struct Dtype {
  at::ScalarType type;
  std::string_view name;
};

constexpr std::array kDtypes = {
    Dtype{at::kDouble, "F64"}, Dtype{at::kFloat, "F32"}, Dtype{at::kHalf, "F16"},  Dtype{at::kBFloat16, "BF16"},
    Dtype{at::kLong, "I64"},   Dtype{at::kInt, "I32"},   Dtype{at::kShort, "I16"}, Dtype{at::kChar, "I8"},
    Dtype{at::kByte, "U8"},    Dtype{at::kBool, "BOOL"},
};

}  // namespace

std::optional<std::string_view> dtype_name(at::ScalarType dtype) {
  for (const auto& known : kDtypes) {
    if (known.type == dtype) return known.name;
  }
  return std::nullopt;
}

std::optional<at::ScalarType> dtype_from_name(std::string_view name) {
  for (const auto& known : kDtypes) {
    if (known.name == name) return known.type;
  }
  return std::nullopt;
}

std::optional<int64_t> byte_count(at::IntArrayRef shape, at::ScalarType dtype) {
  auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      empty = true;  // the other extents must still be countable: LibTorch multiplies them for the strides
    } else if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

void require_storable(const std::string& name, const at::Tensor& tensor) {
  const auto refuse = [&](const std::string& what) {
    throw std::invalid_argument("tensor \"" + name + "\" cannot be saved: it is " + what);
  };
  if (!tensor.defined()) refuse("undefined");
  if (tensor.layout() != at::kStrided) refuse("not a dense tensor (" + std::string(c10::str(tensor.layout())) + ")");
  if (tensor.is_meta()) refuse("on the meta device: it has no data");
  if (!dtype_name(tensor.scalar_type())) refuse("of type " + std::string(c10::toString(tensor.scalar_type())));
}

at::Tensor to_dense_host(const at::Tensor& tensor) {
  auto host = tensor.detach().to(at::kCPU).resolve_conj().resolve_neg();
  if (!host.is_non_overlapping_and_dense()) return host.contiguous();
  const bool alone = host.storage_offset() == 0 && host.storage().nbytes() == host.nbytes();
  return alone ? host : host.clone(at::MemoryFormat::Preserve);
}

}  // namespace ddprun
