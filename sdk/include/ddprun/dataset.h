// SPDX-License-Identifier: MIT
// The samples of an experiment.
//
// Order of calls: the constructor reads options only. prepare() runs in one process of each node before any worker
// starts (download, verify, decode to a cache). start() runs in every worker: open files, map memory. After start()
// everything is const and called from several prefetching threads at once.
#pragma once

#include <ddprun/batch.h>
#include <ddprun/plugin.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>

namespace ddprun {

class ImageStore;
struct ImageAugmentation;

// What augmentation may draw from, besides the samples' own numbers in Batch::index. Never draw from a thread's or
// rank's own generator: the result must not depend on how many workers there are (random.h has the draws).
struct AugmentKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
};

// How far a long prepare() is: text ("downloading train-images-idx3-ubyte.gz"), done and total in the unit of the
// text's choice (bytes), total 0 where it is unknown. The runner shows it; safe to call often.
using Progress = std::function<void(const std::string& text, int64_t done, int64_t total)>;

// A split whose images lie in memory as bytes: the runner makes its batches itself, in one pass from bytes to the
// network's numbers, and on a GPU from a copy that stays there.
struct ImageSource {
  const ImageStore* store = nullptr;                // null: there is none. It and the next live as long as the dataset
  const ImageAugmentation* augmentation = nullptr;  // what augment() applies to training batches; null: nothing
};

namespace detail {
template <class Class>
void create_dataset(void* options, void* out);
}  // namespace detail

class DDPRUN_API Dataset {
 public:
  virtual ~Dataset();

  // Downloads, verifies, decodes to a cache. May be called when all is there. The default does nothing.
  virtual void prepare(const Progress& progress);

  // Whether start() would do without prepare(), as things are: `ddprun check` looks at the data then, and at no others,
  // for it downloads nothing. The default is false where prepare() is not the default. Asked before prepare(), on one
  // thread.
  virtual bool is_prepared() const;

  // Opens files, maps memory.
  virtual void start() = 0;

  // Shape, classes and sizes: valid after start(), the same on all workers.
  virtual DataSpec spec() const = 0;
  virtual int64_t size(Split split) const = 0;  // samples; 0 where there is no such split

  // The samples with these numbers (0 <= n < size(split)), in this order, on the CPU. `input` and `target` own their
  // memory.
  virtual Batch get(Split split, std::span<const int64_t> indices) const = 0;

  // Changes a training batch on the worker's device. The default changes nothing.
  virtual void augment(Batch& batch, const AugmentKey& key) const;

  // The split as bytes, where get() is no more than store->gather(), and augment() than augmentation->apply(): then
  // neither is called in training. The default has none.
  virtual ImageSource images(Split split) const;

  // Inputs as people see them, [B, C, H, W] uint8 on the CPU; undefined where they are no images. `input` is a batch's,
  // on the CPU. The default takes [B, C, H, W] and [B, H, W] for images and spreads each from its least value to its
  // greatest.
  virtual at::Tensor to_image(const at::Tensor& input) const;

  // The class of each sample, [size(split)] int64 on the CPU, where that is known without the samples themselves:
  // `ddprun data` counts them then without decoding a picture. Undefined, as by default, where it is not. Valid after
  // start().
  virtual at::Tensor labels(Split split) const;

 private:
  template <class Class>
  friend void detail::create_dataset(void* options, void* out);

  bool has_default_prepare_ = false;
};

namespace detail {

template <class Class>
concept InheritsPrepare = requires { requires std::is_same_v<decltype(&Class::prepare), decltype(&Dataset::prepare)>; };

template <class Class>
void create_dataset(void* options, void* out) {
  create_plugin<Dataset, Class>(options, out);
  (*static_cast<std::shared_ptr<Dataset>*>(out))->has_default_prepare_ = InheritsPrepare<Class>;
}

}  // namespace detail

}  // namespace ddprun

// Makes the class a dataset plugin; help_text is shown by `ddprun plugins`. Once in a library, outside any namespace.
#define DDPRUN_DATASET(plugin_class, plugin_name, help_text) \
  DDPRUN_REGISTER_PLUGIN(::ddprun::detail::create_dataset<plugin_class>, "dataset", plugin_name, help_text)
