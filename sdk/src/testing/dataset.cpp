// SPDX-License-Identifier: MIT
#include "batch_promises.h"
#include "problem.h"

#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>
#include <ddprun/testing/dataset.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <latch>
#include <numeric>
#include <thread>

namespace ddprun::check {
namespace {

using Numbers = std::vector<int64_t>;

std::shared_ptr<Dataset> started(const DatasetTest& test) {
  auto dataset = in_hook("the constructor", [&] { return test.make(); });
  in_hook("prepare()", [&] { dataset->prepare([](const std::string&, int64_t, int64_t) {}); });
  in_hook("start()", [&] { dataset->start(); });
  return dataset;
}

// One split of a started dataset, and the numbers of the samples to check.
struct SplitScene {
  const Dataset& dataset;
  Split split;
  Numbers numbers;

  Batch get(const Numbers& some) const {
    return in_hook("get()", [&] { return dataset.get(split, some); });
  }
  Batch get() const { return get(numbers); }
};

// Returns the splits that have samples.
std::vector<SplitScene> splits_of(const Dataset& dataset, int64_t samples) {
  std::vector<SplitScene> splits;
  for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
    const auto size = in_hook("size()", [&] { return dataset.size(split); });
    const auto count = std::min(size, samples);
    if (count < 1) continue;
    SplitScene scene{.dataset = dataset, .split = split};
    for (int64_t i = 0; i < count; ++i) scene.numbers.push_back(count == 1 ? 0 : i * (size - 1) / (count - 1));
    splits.push_back(std::move(scene));
  }
  return splits;
}

// What the program leaves unread in each batch is looked at, too.
void check_batch(const DataSpec& spec, const SplitScene& scene) {
  const auto batch = scene.get();
  const auto where = std::string("split ") + split_name(scene.split) + ": ";
  try {
    require_promises(spec, batch, scene.numbers);
  } catch (const BrokenPromise& promise) {
    complain(where, promise.what());
  }
  if (!batch.input.isfinite().all().item<bool>()) complain(where, "input has NaN or infinite numbers");
  for (const auto& [name, extra] : batch.extras)
    if (extra.isnan().any().item<bool>()) complain(where, name, " has NaN among its numbers");
}

// Compares bit for bit, except that NaN equals NaN.
bool same(const at::Tensor& one, const at::Tensor& other) {
  if (one.sizes() != other.sizes() || one.scalar_type() != other.scalar_type()) return false;
  return (one.eq(other) | (one.ne(one) & other.ne(other))).all().item<bool>();
}

// Asks for the samples in these rows of a batch, some perhaps twice. Throws that one "is not the same <when>".
void compare(const Batch& expected, const SplitScene& scene, const std::vector<size_t>& rows, const char* when) {
  Numbers numbers;
  for (const auto row : rows) numbers.push_back(scene.numbers[row]);
  const auto got = scene.get(numbers);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool equal = std::ranges::equal(expected.tensors(), got.tensors(), [&](const auto& one, const auto& other) {
      return one.first == other.first &&
             same(one.second[static_cast<int64_t>(rows[i])], other.second[static_cast<int64_t>(i)]);
    });
    if (!equal) complain("sample ", numbers[i], " is not the same ", when);
  }
}

void check_threads(const Batch& expected, const SplitScene& scene) {
  constexpr size_t kThreads = 4, kRounds = 4, kBatch = 8;
  const auto count = scene.numbers.size();
  std::latch ready(kThreads);
  std::vector<std::string> problems(kThreads);
  const auto ask = [&](size_t thread) {  // begins elsewhere than the other threads
    ready.arrive_and_wait();
    for (size_t first = 0; first < kRounds * count; first += kBatch) {
      std::vector<size_t> rows;
      for (size_t i = first; i < first + kBatch; ++i) rows.push_back((i + thread * count / kThreads) % count);
      compare(expected, scene, rows,
              "where several threads call get() at once: it must change nothing that they share");
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { problems[i] = problem_of([&] { ask(i); }); });
    }
  }
  for (const auto& problem : problems) {
    if (!problem.empty()) complain("in one of ", kThreads, " threads: ", problem);
  }
}

void check_same(const SplitScene& scene, const SplitScene& again) {
  auto expected = scene.get();
  expected.replace_tensors([](const at::Tensor& tensor) { return tensor.clone(); });
  std::vector<size_t> all(scene.numbers.size());
  std::iota(all.begin(), all.end(), size_t{0});
  for (size_t i = 0; i < all.size(); i += 1 + all.size() / 16)
    compare(expected, scene, {i, i}, "in another batch, or where it is asked for twice");
  for (const auto& [name, tensor] : scene.get().tensors()) tensor.fill_(-77);
  compare(expected, scene, all,
          "after the batch that had it was written to: get() must hand out memory of its own (clone())");
  compare(expected, again, all,
          "when the dataset is made again: each rank makes its own, and must have the same samples");
  check_threads(expected, scene);
}

Batch augmented(const Dataset& dataset, const Numbers& numbers) {
  const AugmentKey key{.seed = 5, .epoch = 2};
  auto drawn = in_hook("draw()", [&] { return dataset.draw(numbers, key); });
  in_hook("augment()", [&] { dataset.augment(drawn, key); });
  return drawn;
}

// Computes in one batch, and in one of every second sample from the last on.
void check_augmentation(const Dataset& dataset, const Numbers& numbers) {
  Numbers some;
  std::vector<int64_t> rows;
  for (size_t i = 0; i < numbers.size(); i += 2) {
    some.insert(some.begin(), numbers[i]);
    rows.insert(rows.begin(), static_cast<int64_t>(i));
  }
  auto expected = augmented(dataset, numbers);
  expected.replace_tensors([&](const at::Tensor& all) { return all.index_select(0, at::tensor(rows)); });
  const bool alike =
      std::ranges::equal(expected.tensors(), augmented(dataset, some).tensors(), [](const auto& a, const auto& b) {
        return at::allclose(a.second.to(at::kDouble), b.second.to(at::kDouble), 1e-4, 1e-4, /*equal_nan=*/true);
      });
  if (!alike)
    complain("augment() changes a sample differently in another batch, or the second time: draw from key and ",
             "Batch::index alone, as uniform_for_samples() of <ddprun/random.h> does");
}

void check_images(const Dataset& dataset, const SplitScene& scene) {
  const auto source = in_hook("images()", [&] { return dataset.images(scene.split); });
  if (!source.store) return;
  const auto lent = source.store->gather(scene.numbers);
  auto batch = scene.get();
  if (!lent.input.equal(batch.input) || !lent.target.equal(batch.target))
    complain("split ", split_name(scene.split),
             ": get() gives other samples than images(): lend images only where get() is store->gather() and no more");
  if (scene.split != Split::kTrain) return;
  const AugmentKey key{.seed = 5, .epoch = 3};
  const auto expected = source.augmentation
                            ? source.augmentation->apply(lent.input, batch.index, key, source.store->black())
                            : lent.input;
  in_hook("augment()", [&] { dataset.augment(batch, key); });
  if (batch.input.equal(expected)) return;
  complain("augment() does something other than the augmentation that images() names: lend images only where it is ",
           "augmentation->apply() and no more");
}

}  // namespace

std::string samples(const DatasetTest& test) {
  return problem_of([&] {
    const auto dataset = started(test);
    const auto spec = in_hook("spec()", [&] { return dataset->spec(); });
    const auto names = static_cast<int64_t>(spec.class_names.size());
    if (names != 0 && names != spec.classes)
      complain("spec() has ", names, " class names for ", spec.classes, " classes");
    for (const auto& scene : splits_of(*dataset, test.samples)) check_batch(spec, scene);
  });
}

std::string same_samples(const DatasetTest& test) {
  return problem_of([&] {
    const auto dataset = started(test), again = started(test);
    for (const auto& scene : splits_of(*dataset, test.samples))
      check_same(scene, {.dataset = *again, .split = scene.split, .numbers = scene.numbers});
  });
}

std::string augmentation(const DatasetTest& test) {
  return problem_of([&] {
    const auto dataset = started(test);
    check_augmentation(*dataset, splits_of(*dataset, test.samples).at(0).numbers);
  });
}

std::string images(const DatasetTest& test) {
  return problem_of([&] {
    const auto dataset = started(test);
    for (const auto& scene : splits_of(*dataset, test.samples)) check_images(*dataset, scene);
  });
}

std::vector<std::string> all(const DatasetTest& test) {
  return problems_of({{"samples", [&] { return samples(test); }},
                      {"same_samples", [&] { return same_samples(test); }},
                      {"augmentation", [&] { return augmentation(test); }},
                      {"images", [&] { return images(test); }}});
}

}  // namespace ddprun::check
