// SPDX-License-Identifier: MIT
#include "data/checked_split.h"

#include "plugin_host/plugin_call.h"

#include <ddprun/error.h>
#include <ddprun/image_store.h>
#include <ddprun/objective.h>

#include <ATen/core/Formatting.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <ranges>
#include <string>

namespace ddprun {
namespace {

template <class... Parts>
[[noreturn]] void broken(Split split, const Parts&... parts) {
  throw UserError(c10::str("split ", split_name(split), ": ", parts...));
}

std::span<const int64_t> numbers_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), static_cast<size_t>(tensor.numel())};
}

// Returns the names of extras; "none" if there are none.
template <class Extras>
std::string names_of(const Extras& extras) {
  std::string names;
  for (const auto& [name, extra] : extras) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

// Returns whether the target has a class for each pixel of the pictures.
bool has_class_per_pixel(const Batch& batch) {
  return batch.input.dim() == 4 && batch.target.dim() == 3 && batch.target.scalar_type() == at::kLong &&
         batch.target.sizes().slice(1) == batch.input.sizes().slice(2);
}

bool are_numbers(const at::Tensor& tensor) { return tensor.scalar_type() == at::kLong && tensor.is_contiguous(); }

}  // namespace

CheckedSplit::CheckedSplit(const Dataset& dataset, Split split)
    : dataset_(dataset),
      split_(split),
      size_(dataset.size(split)),
      spec_(in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); })) {}

Batch CheckedSplit::get(std::span<const int64_t> numbers) const {
  return in_plugin({"dataset", "get"}, [&] {
    auto batch = dataset_.get(split_, numbers);
    check(batch, numbers);
    return batch;
  });
}

// Most datasets have no draw() of their own: the errors name get().
Batch CheckedSplit::draw(std::span<const int64_t> numbers, const AugmentKey& key) const {
  return in_plugin({"dataset", "get"}, [&] {
    auto batch = dataset_.draw(numbers, key);
    check(batch, numbers);
    return batch;
  });
}

// augment() may change shapes and values, but not the number of samples.
void CheckedSplit::augment(Batch& batch, const AugmentKey& key) const {
  in_plugin({"dataset", "augment"}, [&] {
    const auto samples = batch.size();
    const bool of_pixels = spec_.classes > 0 && has_class_per_pixel(batch);
    dataset_.augment(batch, key);
    require_promised_extras(batch, "augment()");
    for (const auto& [name, tensor] : batch.tensors()) {
      const auto rows = tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : 0;
      if (rows != samples) broken(split_, "augment() makes ", name, " of ", rows, " samples out of ", samples);
    }
    if (of_pixels && !has_class_per_pixel(batch))
      broken(split_, "augment() gives pictures of ", batch.input.sizes().slice(1), " with targets of ",
             batch.target.sizes().slice(1), ": what moves the pixels must move their classes alike");
  });
}

void CheckedSplit::check(const Batch& batch, std::span<const int64_t> asked) const {
  const auto count = static_cast<int64_t>(asked.size());
  require_promised_extras(batch, "get()");
  auto tensors = batch.tensors();
  tensors.emplace(tensors.begin() + 2, "index", batch.index);
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) broken(split_, "get() leaves Batch::", name, " undefined");
    if (!tensor.is_cpu()) broken(split_, "get() gives ", name, " on ", tensor.device(), ", expected the CPU");
    const auto rows = tensor.dim() > 0 ? tensor.size(0) : 0;
    if (rows != count) broken(split_, "get() was asked for ", count, " samples, and gives ", name, " of ", rows);
  }
  check_input(batch.input);
  check_target(batch, asked);
  for (const auto& [name, extra] : batch.extras) check_extra(name, extra);
  const bool same =
      batch.index.dim() == 1 && are_numbers(batch.index) && std::ranges::equal(numbers_of(batch.index), asked);
  if (!same)
    broken(split_, "get() gives an index that is not the numbers that it was asked for, in their order, as int64");
}

void CheckedSplit::check(const ImageStore& images) const {
  if (images.size() != size_)
    broken(split_, "images() lends ", images.size(), " images, but size() promises ", size_, " samples");
  if (images.size() > 0 && images.shape() != spec_.sample_shape)
    broken(split_, "images() lends images of ", at::IntArrayRef(images.shape()), ", but spec() promises samples of ",
           at::IntArrayRef(spec_.sample_shape));
  if (spec_.classes > 0) check_labels(images.labels(), {}, /*may_ignore=*/false);
  if (!spec_.extras.empty())
    broken(split_, "images() lends images, which have no extras, but spec() promises ", names_of(spec_.extras),
           "; leave images() out");
}

void CheckedSplit::check(const at::Tensor& labels) const {
  if (!labels.is_cpu() || labels.dim() != 1 || labels.size(0) != size_ || !are_numbers(labels))
    broken(split_, "labels() gives ", labels.scalar_type(), " ", labels.sizes(), ", expected Long [", size_,
           "], on the CPU");
  check_labels(numbers_of(labels), {}, /*may_ignore=*/false);
}

void CheckedSplit::check_input(const at::Tensor& input) const {
  const auto found = input.sizes().slice(1);
  if (found != at::IntArrayRef(spec_.sample_shape))
    broken(split_, "get() gives samples of ", found, ", but spec() promises samples of ",
           at::IntArrayRef(spec_.sample_shape));
  if (input.scalar_type() != at::kFloat && input.scalar_type() != at::kLong)
    broken(split_, "get() gives inputs of type ", input.scalar_type(),
           ", expected Float, or Long where samples are made of symbols; use .to(at::kFloat)");
}

void CheckedSplit::require_promised_extras(const Batch& batch, const char* method) const {
  if (std::ranges::equal(std::views::keys(batch.extras), std::views::keys(spec_.extras))) return;
  broken(split_, method, " gives the extras ", names_of(batch.extras), ", but spec() promises ",
         names_of(spec_.extras));
}

void CheckedSplit::check_extra(const std::string& name, const at::Tensor& extra) const {
  const at::IntArrayRef promised = spec_.extras.at(name);
  if (extra.sizes().slice(1) != promised)
    broken(split_, "get() gives ", name, " of ", extra.sizes().slice(1), " for a sample, but spec() promises ",
           promised);
  const auto type = extra.scalar_type();
  if (type != at::kFloat && type != at::kLong && type != at::kBool)
    broken(split_, "get() gives ", name, " of type ", type, ", expected Float, Long or Bool");
}

// Targets of other shapes and types are left to the objective, or to the model's own step().
void CheckedSplit::check_target(const Batch& batch, std::span<const int64_t> asked) const {
  const auto& target = batch.target;
  const bool for_symbols = batch.input.scalar_type() == at::kLong && target.sizes() == batch.input.sizes();
  const bool for_each_part = for_symbols || has_class_per_pixel(batch);
  if (spec_.classes < 1 || (target.dim() != 1 && !for_each_part)) return;
  if (at::isIntegralType(target.scalar_type(), /*includeBool=*/false) && target.scalar_type() != at::kLong)
    broken(split_, "get() gives a target of type ", target.scalar_type(),
           ", expected Long: classes; use .to(at::kLong)");
  if (are_numbers(target)) check_labels(numbers_of(target), asked, for_each_part);
}

void CheckedSplit::check_labels(std::span<const int64_t> labels, std::span<const int64_t> numbers,
                                bool may_ignore) const {
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = labels[i];
    const bool known = label >= 0 && label < spec_.classes;
    if (known || (may_ignore && label == kIgnoredClass)) continue;
    const auto number = numbers.empty() ? static_cast<int64_t>(i) : numbers[i * numbers.size() / labels.size()];
    broken(split_, "sample ", number, " has the class ", label, ", but spec() promises ", spec_.classes,
           " classes, 0 to ", spec_.classes - 1);
  }
}

}  // namespace ddprun
