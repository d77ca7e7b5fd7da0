// SPDX-License-Identifier: MIT
#include "batch_promises.h"

#include <ddprun/objective.h>

#include <ATen/core/Formatting.h>
#include <ATen/core/Tensor.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <ranges>

namespace ddprun::check {
namespace {

template <class... Parts>
[[noreturn]] void broken(const Parts&... parts) {
  throw BrokenPromise(c10::str(parts...));
}

void require_input(const DataSpec& spec, const at::Tensor& input) {
  const auto found = input.sizes().slice(1);
  if (found != at::IntArrayRef(spec.sample_shape))
    broken("get() gives samples of ", found, ", but spec() promises samples of ", at::IntArrayRef(spec.sample_shape));
  if (input.scalar_type() != at::kFloat && input.scalar_type() != at::kLong)
    broken("get() gives inputs of type ", input.scalar_type(),
           ", expected Float, or Long where samples are made of symbols; use .to(at::kFloat)");
}

void require_extra(const DataSpec& spec, const std::string& name, const at::Tensor& extra) {
  const at::IntArrayRef promised = spec.extras.at(name);
  if (extra.sizes().slice(1) != promised)
    broken("get() gives ", name, " of ", extra.sizes().slice(1), " for a sample, but spec() promises ", promised);
  const auto type = extra.scalar_type();
  if (type != at::kFloat && type != at::kLong && type != at::kBool)
    broken("get() gives ", name, " of type ", type, ", expected Float, Long or Bool");
}

// Targets of other shapes and types are left to the objective, or to the model's own step().
void require_target(const DataSpec& spec, const Batch& batch, std::span<const int64_t> asked) {
  const auto& target = batch.target;
  const bool for_symbols = batch.input.scalar_type() == at::kLong && target.sizes() == batch.input.sizes();
  const bool for_each_part = for_symbols || has_class_per_pixel(batch);
  if (spec.classes < 1 || (target.dim() != 1 && !for_each_part)) return;
  if (at::isIntegralType(target.scalar_type(), /*includeBool=*/false) && target.scalar_type() != at::kLong)
    broken("get() gives a target of type ", target.scalar_type(), ", expected Long: classes; use .to(at::kLong)");
  if (are_numbers(target)) require_classes(spec, numbers_of(target), asked, for_each_part);
}

}  // namespace

std::span<const int64_t> numbers_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), static_cast<size_t>(tensor.numel())};
}

bool are_numbers(const at::Tensor& tensor) { return tensor.scalar_type() == at::kLong && tensor.is_contiguous(); }

bool has_class_per_pixel(const Batch& batch) {
  return batch.input.dim() >= 4 && batch.target.dim() == batch.input.dim() - 1 &&
         batch.target.scalar_type() == at::kLong && batch.target.sizes().slice(1) == batch.input.sizes().slice(2);
}

void require_extras(const DataSpec& spec, const Batch& batch, const char* method) {
  if (std::ranges::equal(std::views::keys(batch.extras), std::views::keys(spec.extras))) return;
  broken(method, " gives the extras ", names_of(batch.extras), ", but spec() promises ", names_of(spec.extras));
}

void require_classes(const DataSpec& spec, std::span<const int64_t> labels, std::span<const int64_t> numbers,
                     bool may_ignore) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = labels[i];
    const bool known = label >= 0 && label < spec.classes;
    if (known || (may_ignore && label == kIgnoredClass)) continue;
    const auto number = numbers.empty() ? static_cast<int64_t>(i) : numbers[i * numbers.size() / labels.size()];
    broken("sample ", number, " has the class ", label, ", but spec() promises ", spec.classes, " classes, 0 to ",
           spec.classes - 1);
  }
}

void require_promises(const DataSpec& spec, const Batch& batch, std::span<const int64_t> asked) {
  const auto count = static_cast<int64_t>(asked.size());
  require_extras(spec, batch, "get()");
  auto tensors = batch.tensors();
  tensors.emplace(tensors.begin() + 2, "index", batch.index);
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) broken("get() leaves Batch::", name, " undefined");
    if (!tensor.is_cpu()) broken("get() gives ", name, " on ", tensor.device(), ", expected the CPU");
    const auto rows = tensor.dim() > 0 ? tensor.size(0) : 0;
    if (rows != count) broken("get() was asked for ", count, " samples, and gives ", name, " of ", rows);
  }
  require_input(spec, batch.input);
  require_target(spec, batch, asked);
  for (const auto& [name, extra] : batch.extras) require_extra(spec, name, extra);
  const bool same =
      batch.index.dim() == 1 && are_numbers(batch.index) && std::ranges::equal(numbers_of(batch.index), asked);
  if (!same) broken("get() gives an index that is not the numbers that it was asked for, in their order, as int64");
}

}  // namespace ddprun::check
