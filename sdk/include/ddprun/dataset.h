// SPDX-License-Identifier: MIT
// The samples of an experiment.
//
// The constructor only reads options. prepare() runs in one process per node before any worker starts (download,
// verify, decode to a cache). start() runs in every worker: it opens files and maps memory. After start() everything is
// const and is called from several prefetching threads at once.
#pragma once

#include <ddprun/batch.h>
#include <ddprun/plugin.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace ddprun {

class ImageStore;
struct ImageAugmentation;
struct ImageFormat;

// What draw() and augment() may draw from, besides the samples' numbers in Batch::index. Never draw from a thread's or
// a rank's own generator: the result must not depend on the number of workers (see random.h).
struct AugmentKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
};

// Reports the progress of a long prepare(): text ("downloading train-images-idx3-ubyte.gz"), then done and total in any
// unit (bytes); total is 0 if unknown. The runner shows it; calling it often is fine.
using Progress = std::function<void(const std::string& text, int64_t done, int64_t total)>;

// A split whose images are in memory as bytes. The runner then makes the batches itself, in one pass from bytes to
// normalized values, and on a GPU from a copy that stays there.
struct ImageSource {
  const ImageStore* store = nullptr;  // null if there is none. This and the next live as long as the dataset
  const ImageAugmentation* augmentation = nullptr;  // what augment() applies to training batches; null: nothing
};

// What lies where a dataset looks and is part of no sample, by the reason.
struct LeftAlone {
  std::string reason;  // after "12 files left alone: 8 ", such as "in sub-folders of a class"
  int64_t count = 0;
  std::vector<std::string> examples = {};  // the first few, as paths or names
};

// What became of all that lies where a dataset looks: `used` and the counts of `left_alone` add up to all of it.
struct DataAccount {
  std::string unit = "file";  // what is counted, in the singular
  int64_t used = 0;           // units that samples are made of
  std::vector<LeftAlone> left_alone = {};
  std::vector<std::string> notes = {};  // what else there is to say of them, each without a full stop
  std::string digest = {};  // names the samples by their names, sizes and labels: other data have another one; or empty
};

namespace detail {
template <class Class>
void create_dataset(void* options, void* out);
}  // namespace detail

class DDPRUN_API Dataset {
 public:
  virtual ~Dataset();

  // Downloads, verifies, decodes to a cache. May be called again when everything is there. The default does nothing.
  virtual void prepare(const Progress& progress);

  // Returns true if start() would work now without prepare(). `ddprun check`, which downloads nothing, reads the data
  // only then. The default returns false if prepare() is overridden. Called before prepare(), on one thread.
  virtual bool is_prepared() const;

  // Opens files and maps memory.
  virtual void start() = 0;

  // Returns shape, classes and sizes. Valid after start(); the same on all workers.
  virtual DataSpec spec() const = 0;
  virtual int64_t size(Split split) const = 0;  // number of samples; 0 if there is no such split

  // Returns the samples with these numbers (0 <= n < size(split)), in this order, on the CPU. `input`, `target` and
  // the extras own their memory.
  virtual Batch get(Split split, std::span<const int64_t> indices) const = 0;

  // Returns the training samples with these numbers as an epoch sees them, before augment(): for a dataset that draws
  // what it decodes, such as a part of a picture. As get() otherwise; the training loop calls it in place of that. What
  // happens to a sample depends only on the key and its number. The default is get(Split::kTrain, indices).
  virtual Batch draw(std::span<const int64_t> indices, const AugmentKey& key) const;

  // Changes a training batch on the worker's device, its extras too where they belong to the input. The default changes
  // nothing.
  virtual void augment(Batch& batch, const AugmentKey& key) const;

  // Lends the split as bytes, if get() and draw() are just store->gather() and augment() just augmentation->apply():
  // none of them is then called in training. The default lends none.
  virtual ImageSource images(Split split) const;

  // Makes the split test consist of these new files, which have no targets, and returns the name of the file that each
  // sample came from, as given: `ddprun predict --input`. A file may hold several samples. Their order is that of the
  // files, and get() gives them as it does those of an evaluation, with targets of the usual form that nobody reads,
  // such as class 0; spec() stays the same. Called at most once, after start() and before other threads use the
  // dataset, on all workers with the same files. Throws UserError with the file that cannot be read. The default throws
  // UserError: this dataset takes no new files.
  virtual std::vector<std::string> use_inputs(const std::vector<std::filesystem::path>& files);

  // Takes the place of prepare() and start() before use_inputs(), so that new files can be predicted where the training
  // data are gone. `noted` is what spec() said in training, and `form` a batch of no samples: its input and target are
  // [0, ...] of the shapes and types that batches had then. From then on spec(), to_image() and use_inputs() work, and
  // no split has samples. Returns false, with nothing changed, if the data must be there: start() is then called. The
  // default does that. Called at most once, on all workers with the same arguments.
  virtual bool start_without_data(const DataSpec& noted, const Batch& form);

  // Returns the name of a sample for people, such as its file, 0 <= index < size(split); an empty text if it has none.
  // All samples of a split have one, or none has. The default returns an empty text. Valid after start().
  virtual std::string sample_name(Split split, int64_t index) const;

  // Returns how inputs are made of bytes, where a dataset that lends no images() makes them so too: for `ddprun export
  // --raw`. Valid from the constructor on, and as long as the dataset. The default returns null: they are made
  // otherwise.
  virtual const ImageFormat* image_format() const;

  // Returns inputs as viewable images, [B, C, H, W] uint8 on the CPU, or undefined if they are not images. `input` is
  // that of a batch, on the CPU. The default takes [B, C, H, W] and [B, H, W] as images and scales each from its
  // minimum to its maximum.
  virtual at::Tensor to_image(const at::Tensor& input) const;

  // Returns the class of each sample, [size(split)] int64 on the CPU, if it is known without reading the samples:
  // `ddprun data` then counts them without decoding an image. The default returns undefined. Valid after start().
  virtual at::Tensor labels(Split split) const;

  // Returns what the dataset found and what became of it: a run, `ddprun check` and `ddprun data` show it. The default
  // returns an account of nothing. Valid after start(); the same on all workers.
  virtual DataAccount account() const;

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

// Registers the class as a dataset plugin; `ddprun plugins` shows help_text. Use once per library, outside any
// namespace.
#define DDPRUN_DATASET(plugin_class, plugin_name, help_text) \
  DDPRUN_REGISTER_PLUGIN(::ddprun::detail::create_dataset<plugin_class>, "dataset", plugin_name, help_text)
