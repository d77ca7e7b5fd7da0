// SPDX-License-Identifier: MIT
// Checks that the images a dataset lends are those that get() returns.
#include "dataset_scene.h"
#include "problem.h"

#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>
#include <ddprun/testing/dataset.h>

#include <ATen/ATen.h>

namespace ddprun::check {
namespace {

void check_samples(const ImageSource& source, const SplitScene& scene) {
  const auto lent = source.store->gather(scene.numbers), got = scene.get();
  const auto where = std::string("split ") + split_name(scene.split) + ": get() gives a different ";
  const auto* what = !lent.input.equal(got.input) ? "input" : !lent.target.equal(got.target) ? "target" : nullptr;
  if (!got.extras.empty()) complain(where, "sample than images(), which have no extras: lend none");
  if (what) complain(where, what, " than images(): lend images only where get() is store->gather() and no more");
}

void check_augmentation(const Dataset& dataset, const ImageSource& source, const Batch& batch) {
  const AugmentKey key{.seed = 5, .epoch = 3};
  auto changed = batch;
  in_hook("augment()", [&] { dataset.augment(changed, key); });
  const auto expected = source.augmentation
                            ? source.augmentation->apply(batch.input, batch.index, key, source.store->black())
                            : batch.input;
  if (changed.input.equal(expected)) return;
  complain("augment() does something other than the augmentation that images() names: lend images only where it is ",
           "augmentation->apply() and no more");
}

}  // namespace

std::string images(const DatasetTest& test) {
  return problem_of([&] {
    const auto dataset = started(test);
    for (const auto& scene : splits_of(*dataset, test.samples)) {
      const auto source = in_hook("images()", [&] { return dataset->images(scene.split); });
      if (!source.store) continue;
      check_samples(source, scene);
      if (scene.split == Split::kTrain) check_augmentation(*dataset, source, scene.get());
    }
  });
}

}  // namespace ddprun::check
