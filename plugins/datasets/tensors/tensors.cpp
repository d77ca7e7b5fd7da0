// SPDX-License-Identifier: MIT
// The user's own arrays from .safetensors or .npy files, mapped into memory so that the workers of a node share them.
#include "new_pictures.h"
#include "sample_arrays.h"

#include <ddprun/data_digest.h>
#include <ddprun/dataset.h>
#include <ddprun/error.h>
#include <ddprun/folds.h>
#include <ddprun/objective.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>

namespace {

using ddprun::kIgnoredClass;
using ddprun::Split;
using ddprun::arrays::Affine;
using ddprun::arrays::SampleArrays;
using ddprun::arrays::StoredArray;

constexpr uint64_t kHoldOutStream = 0x74656E736F727300;  // "tensors": distinct from other uses of the seed
constexpr int64_t kMostClasses = 1'000'000;              // a larger label is not a class
constexpr int64_t kOftenIgnored = 255;                   // in masks of bytes
constexpr size_t kMostExamples = 3;                      // of tensors that are left alone
using Files = std::vector<std::filesystem::path>;

constexpr std::array kSplits = {Split::kTrain, Split::kVal, Split::kTest};

// The part of the arrays that makes up a split.
struct Part {
  SampleArrays arrays;
  std::vector<int64_t> labels;  // of all rows; empty if the targets are no class for each sample
  std::vector<int64_t> rows;    // by sample number

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

// The labels that occur.
struct Labels {
  int64_t largest = -1;
  std::bitset<kOftenIgnored + 1> small;
};

// Returns the one or two files that the user wrote, or none if the option is absent or wrong.
Files read_files(ddprun::Options& options, const std::string& name, const std::string& help, bool required = false) {
  auto files = required ? options.require<Files>(name, help) : options.get<Files>(name, {}, help);
  const bool named = std::ranges::none_of(files, &std::filesystem::path::empty);
  if (options.has(name) && ((required && files.empty()) || files.size() > 2 || !named))
    options.reject(name, "expected a .safetensors file or [input.npy, target.npy]");
  return files;
}

std::vector<int64_t> count_up(int64_t size) {
  std::vector<int64_t> numbers(static_cast<size_t>(size));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

class Tensors final : public ddprun::Dataset {
 public:
  explicit Tensors(ddprun::Options& options) {
    const std::string otherwise = "; like train";
    files_[0] = read_files(options, "train", "training samples: a .safetensors file, or [input.npy, target.npy]", true);
    files_[1] = read_files(options, "val", "validation samples" + otherwise);
    files_[2] = read_files(options, "test", "test samples" + otherwise);
    names_.input = options.get<std::string>("input", "input", "name of the inputs in a .safetensors file");
    names_.target = options.get<std::string>("target", "target",
                                             "name of the targets in a .safetensors file; integers are classes, of "
                                             "samples or of their symbols or pixels, floats are values");
    names_.extras = options.get<std::vector<std::string>>(
        "extras", {},
        "names of further tensors in a .safetensors file, such as attention_mask: float32, int64 or bool");
    require_other_names(options);
    symbols_ = options.get<bool>("symbols", false, "inputs are numbers of symbols, as of a text: they stay integers");
    declared_classes_ = options.get<int64_t>(
        "classes", 0,
        "number of classes; 0: the largest label of all splits, plus 1. Needed where a sample has other numbers of "
        "classes than of symbols or pixels, as in a translation",
        {.min = 0, .max = kMostClasses});
    ignored_ = options.get<int64_t>("ignored", kIgnoredClass,
                                    "label of a symbol or pixel that has no class, such as 255 in many masks");
    names_file_ =
        options.get<std::filesystem::path>("class_names", "", "a .json file with a list of the classes' names");
    read_numbers(options);
  }

  void prepare(const ddprun::Progress&) override { start(); }  // finds mistakes in the files before workers start
  bool is_prepared() const override { return true; }

  void start() override {
    for (const auto split : kSplits) open(split);
    const auto& train = part(Split::kTrain).arrays;
    if (ignored_ != kIgnoredClass && !train.has_class_per_element())
      train.target.refuse("is " + train.target.text() +
                          ", but dataset.ignored is for a class for each symbol or pixel; leave it out");
    if (declared_classes_ > 0 && !train.has_classes())
      train.target.refuse("is " + train.target.text() +
                          ", and dataset.classes is for targets that are classes, integers; leave it out");
    if (train.has_classes()) check_labels();
    read_class_names(train);
    require_a_change_for_each(sample_shape());
    if (val_fraction_ > 0) hold_out();
    if (fold_.count > 0) hold_out_fold();
  }

  ddprun::DataSpec spec() const override {
    if (noted_) return *noted_;
    ddprun::DataSpec spec{.sample_shape = sample_shape(), .classes = classes_, .class_names = class_names_};
    for (size_t i = 0; i < names_.extras.size(); ++i) {
      const auto& extra = part(Split::kTrain).arrays.extras[i].shape;
      spec.extras[names_.extras[i]].assign(extra.begin() + 1, extra.end());
    }
    return spec;
  }

  int64_t size(Split split) const override { return part(split).size(); }

  // Each sample of the arrays is used; tensors of other names are not.
  ddprun::DataAccount account() const override {
    ddprun::DataAccount account{.unit = "tensor"};
    ddprun::LeftAlone rest{.reason = "that neither dataset.input, target nor extras names"};
    ddprun::DataDigest digest;
    for (const auto split : kSplits) {
      const auto& [arrays, labels, rows] = part(split);
      digest.add(rows);
      digest.add(labels);
      if (files_[slot(split)].empty()) continue;
      for (const auto* array : arrays.all()) digest.add_some(array->bytes.get(), array->size_in_bytes());
      account.used += static_cast<int64_t>(arrays.all().size());
      rest.count += static_cast<int64_t>(arrays.others.size());
      for (const auto& name : arrays.others)
        rest.examples.push_back(files_[slot(split)].front().string() + ": " + name);
    }
    if (rest.examples.size() > kMostExamples) rest.examples.resize(kMostExamples);
    if (rest.count > 0) account.left_alone.push_back(std::move(rest));
    account.digest = digest.hex();
    return account;
  }

  at::Tensor labels(Split split) const override {
    const auto& from = part(split);
    if (from.labels.empty()) return {};
    auto labels = at::empty({from.size()}, at::kLong);
    auto* out = labels.mutable_data_ptr<int64_t>();
    for (const int64_t row : from.rows) *out++ = from.labels[static_cast<size_t>(row)];
    return labels;
  }

  // Of all but tables, the training data say more: extras, symbols, and whether pictures were bytes.
  bool start_without_data(const ddprun::DataSpec& noted, const ddprun::Batch& form) override {
    if (noted.sample_shape.size() > 1 || symbols_ || !names_.extras.empty() || form.input.scalar_type() != at::kFloat)
      return false;
    require_a_change_for_each(noted.sample_shape);
    noted_ = noted;
    form_ = form;
    return true;
  }

  std::vector<std::string> use_inputs(const Files& files) override {
    if (!noted_ && !has_arrays(files)) return use_pictures(files);
    if (files.size() != 1)
      throw ddprun::UserError("expected one file of inputs, found " + std::to_string(files.size()));
    auto& inputs = part(Split::kTest) = {};
    inputs.arrays = noted_ ? open_inputs(files[0], names_, noted_->sample_shape)
                           : open_inputs(files[0], names_, part(Split::kTrain).arrays);
    require_symbols(inputs.arrays.input);
    inputs.rows = count_up(inputs.arrays.input.rows());
    return std::vector<std::string>(inputs.rows.size(), files[0].string());
  }

  ddprun::Batch get(Split split, std::span<const int64_t> indices) const override {
    const auto& from = part(split);
    std::vector<int64_t> rows;
    rows.reserve(indices.size());
    for (const int64_t index : indices) {
      if (index < 0 || index >= from.size()) throw std::out_of_range("sample " + std::to_string(index));
      rows.push_back(from.rows[static_cast<size_t>(index)]);
    }
    const auto sample = spec().sample_shape;
    const auto& input = from.arrays.input;
    ddprun::Batch batch{.input = symbols_ ? integers(input, rows, sample) : values(input, rows, changes_, sample),
                        .target = targets(from, rows),
                        .index = at::tensor(at::IntArrayRef(indices.data(), indices.size()), at::kLong)};
    for (size_t i = 0; i < names_.extras.size(); ++i)
      batch.extras[names_.extras[i]] = unchanged(from.arrays.extras[i], rows);
    return batch;
  }

 private:
  static bool has_arrays(const Files& files) {
    return std::ranges::any_of(files, [](const std::filesystem::path& file) {
      return file.extension() == ".npy" || file.extension() == ".safetensors";
    });
  }

  // Picture files are bytes: they stand for arrays of bytes alone, for nobody knows how others were made of pictures.
  std::vector<std::string> use_pictures(const Files& files) {
    const auto& train = part(Split::kTrain).arrays.input;
    auto shape = train.shape;
    if (shape.size() == 3) shape.insert(shape.begin() + 1, 1);
    if (shape.size() != 4 || train.dtype != at::kByte || !names_.extras.empty())
      train.refuse("is " + train.text() +
                   ": new picture files stand for pictures of uint8, [N, C, H, W], alone; save " +
                   "new samples as these were, in a .npy or .safetensors file");
    const auto pictures =
        ddprun::images::read_new_pictures(files, std::vector<int64_t>(shape.begin() + 1, shape.end()));
    auto& inputs = part(Split::kTest) = {};
    inputs.arrays.input = {.place = "--input", .dtype = at::kByte, .shape = train.shape, .bytes = pictures.pixels};
    inputs.arrays.input.shape[0] = std::ssize(files);
    inputs.rows = count_up(std::ssize(files));
    return pictures.names;
  }

  static size_t slot(Split split) { return static_cast<size_t>(split); }
  const Part& part(Split split) const { return parts_[slot(split)]; }
  Part& part(Split split) { return parts_[slot(split)]; }

  void require_other_names(ddprun::Options& options) const {
    std::set<std::string> seen{names_.input, names_.target, "index"};
    for (const auto& name : names_.extras) {
      if (!seen.insert(name).second)
        options.reject(
            "extras", name +
                          " is another tensor's name already: that of the inputs, of the targets, of another extra, or "
                          "index, the samples' numbers. The options input and target name others for those two");
    }
  }

  void read_numbers(ddprun::Options& options) {
    const auto scale = options.get<double>("scale", 1, "factor of the inputs; 0.00392157 for bytes");
    const auto mean = options.get<std::vector<double>>(
        "mean", {0}, "subtracted from the scaled inputs: a number, or one for each column or channel");
    const auto deviation = options.get<std::vector<double>>(
        "std", {1}, "divisor of the inputs after that: a number, or one for each column or channel", {.min = 1e-30});
    for (const auto* name : {"scale", "mean", "std"}) {
      if (symbols_ && options.has(name)) options.reject(name, "symbols are not scaled; leave it out, or symbols");
    }
    set_changes(options, scale, mean, deviation);
    val_fraction_ = options.get<double>("val_fraction", 0, "share of train held out as val, if there is no val",
                                        {.min = 0, .max = 0.999});
    seed_ = options.get<int64_t>("seed", 1, "another seed holds out other samples", {.min = 0});
    fold_ = ddprun::Fold::read(options, "val_fraction");
    if (options.has("seed") && val_fraction_ == 0 && fold_.count == 0)
      options.reject("seed", "has no effect: neither val_fraction nor folds holds anything out");
    if (fold_.count > 0 && !files_[1].empty()) options.reject("folds", "there is a val file; give one or the other");
    if (val_fraction_ > 0 && !files_[1].empty())
      options.reject("val_fraction", "there is a val file; give one or the other");
  }

  // One for all numbers, or one for each column or channel.
  void set_changes(ddprun::Options& options, double scale, const std::vector<double>& mean,
                   const std::vector<double>& deviation) {
    if (mean.empty()) return options.reject("mean", "expected a number, or one for each column or channel");
    if (deviation.empty()) return options.reject("std", "expected a number, or one for each column or channel");
    const auto most = std::max(mean.size(), deviation.size());
    if (std::min(mean.size(), deviation.size()) != 1 && mean.size() != deviation.size())
      return options.reject("std", "expected as many numbers as mean has, " + std::to_string(mean.size()) + ", found " +
                                       std::to_string(deviation.size()));
    changes_.resize(most);
    for (size_t i = 0; i < most; ++i) {
      const auto from = mean[mean.size() == 1 ? 0 : i], by = deviation[deviation.size() == 1 ? 0 : i];
      changes_[i] = {.factor = scale / by, .offset = -from / by};
    }
  }

  void require_a_change_for_each(const std::vector<int64_t>& sample) const {
    if (changes_.size() == 1 || std::ssize(changes_) == sample.front()) return;
    throw ddprun::UserError("dataset.mean and std have " + std::to_string(changes_.size()) +
                            " numbers, but samples have " + std::to_string(sample.front()) +
                            " columns or channels; give one for each, or one for all");
  }

  void read_class_names(const SampleArrays& train) {
    if (names_file_.empty()) return;
    if (!train.has_classes())
      train.target.refuse("is " + train.target.text() +
                          ", and dataset.class_names is for targets that are classes, integers; leave it out");
    class_names_ = ddprun::arrays::read_names(names_file_);
    if (std::ssize(class_names_) < classes_)
      throw ddprun::UserError(names_file_.string() + ": it names " + std::to_string(class_names_.size()) +
                              " classes, but there are labels up to " + std::to_string(classes_ - 1) +
                              "; expected a name for each");
    classes_ = std::ssize(class_names_);
  }

  std::vector<int64_t> sample_shape() const {
    const auto& shape = part(Split::kTrain).arrays.input.shape;
    return shape.size() < 2 ? std::vector<int64_t>{1} : std::vector<int64_t>(shape.begin() + 1, shape.end());
  }

  void open(Split split) {
    const auto& files = files_[slot(split)];
    part(split) = {};
    if (files.empty()) return;
    auto& opened = part(split);
    opened.arrays = open_samples(files, names_, declared_classes_ > 0);
    opened.rows = count_up(opened.arrays.input.rows());
    if (split != Split::kTrain) require_alike(part(Split::kTrain).arrays, opened.arrays);
    require_symbols(opened.arrays.input);
    const bool one_class = opened.arrays.has_classes() && !opened.arrays.has_class_per_element();
    if (one_class) opened.labels = to_integers(opened.arrays.target);
  }

  void require_symbols(const StoredArray& input) const {
    if (symbols_ && !input.holds_integers())
      input.refuse("is " + input.text() +
                   ", but dataset.symbols says that inputs are numbers of symbols; save integers");
  }

  void check_labels() {
    Labels all;
    for (const auto& checked : parts_) {
      Labels found;
      for (const int64_t row : checked.rows) look_at(checked.arrays, row, found);
      if (!checked.rows.empty() && found.largest < 0)
        checked.arrays.target.refuse("all labels are " + std::to_string(ignored_) +
                                     ", that of symbols and pixels without a class: nothing would count");
      all.largest = std::max(all.largest, found.largest);
      all.small |= found.small;
    }
    classes_ = declared_classes_ > 0 ? declared_classes_ : all.largest + 1;
    if (declared_classes_ == 0 && !symbols_ && all.largest == kOftenIgnored && all.small.count() <= kOftenIgnored / 2)
      refuse_255(part(Split::kTrain).arrays);
  }

  [[noreturn]] static void refuse_255(const SampleArrays& arrays) {
    arrays.target.refuse(std::string("the largest label is 255, and most below it do not occur: if it marks what has "
                                     "no class, ") +
                         (arrays.has_class_per_element() ? "set dataset.ignored=255" : "leave those samples out") +
                         "; if it is a class, set dataset.classes=256");
  }

  void look_at(const SampleArrays& arrays, int64_t row, Labels& found) const {
    const int64_t bound = declared_classes_ > 0 ? declared_classes_ : kMostClasses;
    std::vector<int64_t> labels(static_cast<size_t>(arrays.target.row_values()));
    copy_integers(arrays.target, row, labels.data());
    for (const int64_t label : labels) {
      if (arrays.has_class_per_element() && (label == ignored_ || label == kIgnoredClass)) continue;
      if (label < 0 || label >= bound)
        arrays.target.refuse("label " + std::to_string(label) + " of sample " + std::to_string(row) +
                             ", expected 0 to " + std::to_string(bound - 1) +
                             "; number the classes from 0, or set dataset.classes" +
                             (arrays.has_class_per_element() ? " or dataset.ignored" : ""));
      found.largest = std::max(found.largest, label);
      if (label <= kOftenIgnored) found.small.set(static_cast<size_t>(label));
    }
  }

  // Moves a random part of the training samples to val, of each class its share; both keep the order of the file.
  void hold_out() {
    auto& train = part(Split::kTrain);
    const auto count = static_cast<int64_t>(std::llround(static_cast<double>(train.size()) * val_fraction_));
    if (count < 1 || count >= train.size()) {
      train.arrays.input.refuse("holds " + std::to_string(train.size()) +
                                " samples: too few to hold out val_fraction " + std::to_string(val_fraction_));
    }
    auto& val = part(Split::kVal) = train;
    const auto labels = train.labels.empty() ? std::vector<int64_t>(train.rows.size()) : train.labels;
    const auto chosen = ddprun::choose_evenly(labels, count, static_cast<uint64_t>(seed_), kHoldOutStream);
    const auto is_chosen = [&](int64_t row) { return chosen[static_cast<size_t>(row)]; };
    std::erase_if(train.rows, is_chosen);
    std::erase_if(val.rows, [&](int64_t row) { return !is_chosen(row); });
  }

  void hold_out_fold() {
    auto& train = part(Split::kTrain);
    auto& val = part(Split::kVal) = train;
    const auto labels = train.labels.empty() ? std::vector<int64_t>(train.rows.size()) : train.labels;
    const auto folds = ddprun::assign_folds(labels, fold_.count, static_cast<uint64_t>(seed_));
    const auto is_held_out = [&](int64_t row) { return folds[static_cast<size_t>(row)] == fold_.number; };
    std::erase_if(train.rows, is_held_out);
    std::erase_if(val.rows, [&](int64_t row) { return !is_held_out(row); });
  }

  static at::Tensor empty_rows(const std::vector<int64_t>& rows, std::span<const int64_t> sample_shape,
                               at::ScalarType type) {
    std::vector<int64_t> shape{static_cast<int64_t>(rows.size())};
    shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
    return at::empty(shape, type);
  }

  static at::Tensor values(const StoredArray& array, const std::vector<int64_t>& rows, std::span<const Affine> changes,
                           std::span<const int64_t> sample_shape) {
    auto result = empty_rows(rows, sample_shape, at::kFloat);
    auto* out = result.mutable_data_ptr<float>();
    for (const int64_t row : rows) {
      copy_row(array, row, changes, out);
      out += array.row_values();
    }
    return result;
  }

  static at::Tensor integers(const StoredArray& array, const std::vector<int64_t>& rows,
                             std::span<const int64_t> sample_shape) {
    auto result = empty_rows(rows, sample_shape, at::kLong);
    auto* out = result.mutable_data_ptr<int64_t>();
    for (const int64_t row : rows) {
      copy_integers(array, row, out);
      out += array.row_values();
    }
    return result;
  }

  static at::Tensor unchanged(const StoredArray& array, const std::vector<int64_t>& rows) {
    auto result = empty_rows(rows, std::span(array.shape).subspan(1), array.dtype);
    auto* out = static_cast<uint8_t*>(result.mutable_data_ptr());
    for (const int64_t row : rows) {
      copy_unchanged(array, row, out);
      out += array.row_values() * static_cast<int64_t>(result.element_size());
    }
    return result;
  }

  // [B] classes, [B, T] classes of symbols, [B, H, W] classes of pixels, or [B, ...] float32 values.
  at::Tensor targets(const Part& from, const std::vector<int64_t>& rows) const {
    if (!from.arrays.target.bytes) return no_targets(rows);
    const auto& target = from.arrays.target;
    const auto shape = std::span(target.shape).subspan(1);
    if (!from.arrays.has_classes()) return values(target, rows, std::array<Affine, 1>{}, shape);
    if (!from.arrays.has_class_per_element()) return integers(target, rows, {});
    auto classes = integers(target, rows, shape);
    if (ignored_ != kIgnoredClass) classes.masked_fill_(classes.eq(ignored_), kIgnoredClass);
    return classes;
  }

  // Returns zeros of the form of train's targets.
  at::Tensor no_targets(const std::vector<int64_t>& rows) const {
    if (noted_) return empty_rows(rows, form_.target.sizes().slice(1), form_.target.scalar_type()).zero_();
    const auto& train = part(Split::kTrain).arrays;
    const auto shape = std::span(train.target.shape).subspan(1);
    if (!train.has_classes()) return empty_rows(rows, shape, at::kFloat).zero_();
    return empty_rows(rows, train.has_class_per_element() ? shape : std::span<const int64_t>(), at::kLong).zero_();
  }

  std::array<Files, 3> files_;  // by Split
  ddprun::arrays::TensorNames names_;
  bool symbols_ = false;
  int64_t ignored_ = kIgnoredClass;
  int64_t declared_classes_ = 0;  // 0: as many as there are labels
  int64_t classes_ = 0;
  std::vector<Affine> changes_{{}};
  std::filesystem::path names_file_;
  std::vector<std::string> class_names_;
  std::optional<ddprun::DataSpec> noted_;  // in the place of data
  ddprun::Batch form_;                     // likewise: a batch of no samples
  double val_fraction_ = 0;
  ddprun::Fold fold_;
  int64_t seed_ = 1;
  std::array<Part, 3> parts_;  // by Split
};

}  // namespace

DDPRUN_DATASET(Tensors, "tensors", "your own arrays, from .safetensors or .npy files")
