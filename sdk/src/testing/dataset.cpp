// SPDX-License-Identifier: MIT
#include "batch_promises.h"
#include "dataset_scene.h"
#include "problem.h"

#include <ddprun/testing/dataset.h>

#include <ATen/ATen.h>

namespace ddprun::check {
namespace {

// What the program leaves unread in each batch is looked at, too.
void check_batch(const DataSpec& spec, const Batch& batch, const Numbers& numbers, const std::string& where) {
  try {
    require_promises(spec, batch, numbers);
  } catch (const BrokenPromise& promise) {
    complain(where, promise.what());
  }
  if (!batch.input.isfinite().all().item<bool>()) complain(where, "input has NaN or infinite numbers");
  for (const auto& [name, extra] : batch.extras)
    if (extra.isnan().any().item<bool>()) complain(where, name, " has NaN among its numbers");
}

void check_images(const Dataset& dataset, const Batch& batch) {
  const auto images = in_hook("to_image()", [&] { return dataset.to_image(batch.input); });
  if (!images.defined()) return;
  if (images.dim() == 4 && images.size(0) == batch.size() && images.scalar_type() == at::kByte) return;
  complain("to_image() gives ", images.scalar_type(), " ", images.sizes(),
           ", expected Byte [B, C, H, W], or an undefined tensor for what ", "is no image");
}

void check_spec(const DataSpec& spec) {
  for (const auto size : spec.sample_shape) {
    if (size < 1) complain("spec() promises samples of ", at::IntArrayRef(spec.sample_shape));
  }
  const auto names = static_cast<int64_t>(spec.class_names.size());
  if (names != 0 && names != spec.classes)
    complain("spec() has ", names, " class names for ", spec.classes, " classes");
}

void check_alone_and_twice(const SplitScene& scene) {
  const auto expected = scene.get();
  for (size_t i = 0; i < scene.numbers.size(); i += 1 + scene.numbers.size() / 16) {
    const auto number = scene.numbers[i];
    const auto twice = scene.get({number, number});
    compare_row(expected, static_cast<int64_t>(i), scene.get({number}), 0, "alone as in a batch");
    compare_row(expected, static_cast<int64_t>(i), twice, 0, "where it is asked for twice");
    compare_row(expected, static_cast<int64_t>(i), twice, 1, "where it is asked for twice");
  }
}

void check_order(const SplitScene& scene) {
  const auto expected = scene.get();
  const auto backwards = scene.get({scene.numbers.rbegin(), scene.numbers.rend()});
  const auto count = static_cast<int64_t>(scene.numbers.size());
  for (int64_t i = 0; i < count; ++i) compare_row(expected, i, backwards, count - 1 - i, "in a batch of another order");
}

void check_own_memory(const SplitScene& scene) {
  const auto expected = scene.get();
  auto copy = expected;
  copy.replace_tensors([](const at::Tensor& tensor) { return tensor.clone(); });
  for (const auto& [name, tensor] : expected.tensors()) tensor.fill_(-77);
  const auto again = scene.get();
  for (int64_t i = 0; i < copy.size(); ++i) {
    compare_row(copy, i, again, i,
                "after the batch that had it was written to: get() must hand out memory of its own (clone())");
  }
}

}  // namespace

std::string samples(const DatasetTest& test) {
  return problem_of([&] {
    const auto dataset = started(test);
    const auto spec = spec_of(*dataset);
    check_spec(spec);
    if (dataset->size(Split::kTrain) < 1) complain("there are no training samples");
    for (const auto& scene : splits_of(*dataset, test.samples)) {
      const auto batch = scene.get();
      check_batch(spec, batch, scene.numbers, std::string("split ") + split_name(scene.split) + ": ");
      check_images(*dataset, batch);
    }
  });
}

std::string same_in_any_batch(const DatasetTest& test) {
  return problem_of([&] {
    const auto dataset = started(test);
    for (const auto& scene : splits_of(*dataset, test.samples)) {
      check_alone_and_twice(scene);
      check_order(scene);
      check_own_memory(scene);
    }
  });
}

std::string same_when_made_again(const DatasetTest& test) {
  return problem_of([&] {
    const auto one = started(test), other = started(test);
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
      if (one->size(split) == other->size(split)) continue;
      complain("split ", split_name(split), " has ", one->size(split), " samples, and ", other->size(split),
               " when it is made again");
    }
    const auto splits = splits_of(*one, test.samples), others = splits_of(*other, test.samples);
    for (size_t i = 0; i < splits.size(); ++i) {
      const auto expected = splits[i].get(), got = others[i].get();
      for (int64_t row = 0; row < expected.size(); ++row) {
        compare_row(expected, row, got, row,
                    "when the dataset is made again: each rank makes its own, and must have the same samples");
      }
    }
  });
}

std::vector<std::string> all(const DatasetTest& test) {
  return problems_of({{"samples", [&] { return samples(test); }},
                      {"same_in_any_batch", [&] { return same_in_any_batch(test); }},
                      {"thread_safe", [&] { return thread_safe(test); }},
                      {"same_when_made_again", [&] { return same_when_made_again(test); }},
                      {"augmentation", [&] { return augmentation(test); }},
                      {"images", [&] { return images(test); }}});
}

}  // namespace ddprun::check
