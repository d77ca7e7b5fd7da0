// SPDX-License-Identifier: MIT
#include "data/checked_split.h"

#include "batch_promises.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/error.h>
#include <ddprun/image_store.h>
#include <ddprun/objective.h>

#include <ATen/core/Formatting.h>
#include <c10/util/StringUtil.h>

#include <string>

namespace ddprun {
namespace {

template <class... Parts>
[[noreturn]] void broken(Split split, const Parts&... parts) {
  throw UserError(c10::str("split ", split_name(split), ": ", parts...));
}

// Calls a check of <batch_promises.h>, and puts the split before what it finds.
template <class Check>
void for_split(Split split, const Check& check) try {
  check();
} catch (const check::BrokenPromise& promise) {
  broken(split, promise.what());
}

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
    const bool of_pixels = spec_.classes > 0 && check::has_class_per_pixel(batch);
    dataset_.augment(batch, key);
    for_split(split_, [&] { check::require_extras(spec_, batch, "augment()"); });
    for (const auto& [name, tensor] : batch.tensors()) {
      const auto rows = tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : 0;
      if (rows != samples) broken(split_, "augment() makes ", name, " of ", rows, " samples out of ", samples);
    }
    if (of_pixels && !check::has_class_per_pixel(batch))
      broken(split_, "augment() gives pictures of ", batch.input.sizes().slice(1), " with targets of ",
             batch.target.sizes().slice(1), ": what moves the pixels must move their classes alike");
  });
}

void CheckedSplit::check(const Batch& batch, std::span<const int64_t> asked) const {
  for_split(split_, [&] { check::require_promises(spec_, batch, asked); });
}

void CheckedSplit::check(const ImageStore& images) const {
  if (images.size() != size_)
    broken(split_, "images() provides ", images.size(), " images, but size() promises ", size_, " samples");
  if (images.size() > 0 && images.shape() != spec_.sample_shape)
    broken(split_, "images() provides images of ", at::IntArrayRef(images.shape()), ", but spec() promises samples of ",
           at::IntArrayRef(spec_.sample_shape));
  if (spec_.classes > 0) check_labels(images.labels());
  if (!spec_.extras.empty())
    broken(split_, "images() provides images, which have no extras, but spec() promises ",
           check::names_of(spec_.extras), "; leave images() out");
}

void CheckedSplit::check(const at::Tensor& labels) const {
  if (!labels.is_cpu() || labels.dim() != 1 || labels.size(0) != size_ || !check::are_numbers(labels))
    broken(split_, "labels() gives ", labels.scalar_type(), " ", labels.sizes(), ", expected Long [", size_,
           "], on the CPU");
  check_labels(check::numbers_of(labels));
}

void CheckedSplit::check_labels(std::span<const int64_t> labels) const {
  for_split(split_, [&] { check::require_classes(spec_, labels, {}, /*may_ignore=*/false); });
}

}  // namespace ddprun
