// SPDX-License-Identifier: MIT
#include "sample_arrays.h"

#include "npy_file.h"
#include "safetensors_file.h"

#include <ddprun/safetensors.h>

#include <strict_json.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <sstream>
#include <utility>

namespace ddprun::arrays {
namespace {

SampleArrays read(const std::vector<std::filesystem::path>& files, const TensorNames& names) {
  if (files.size() == 2) {
    SampleArrays pair{read_npy(map_file(files[0])), read_npy(map_file(files[1])), {}, {}};
    if (!names.extras.empty()) pair.input.refuse("is an array alone; dataset.extras needs a .safetensors file");
    return pair;
  }
  const auto file = map_file(files.front());
  if (files.front().extension() == ".npy") {
    file.refuse("holds one array; name a list of two files, [input.npy, target.npy]");
  }
  if (const auto ending = files.front().extension().string(); ending == ".csv" || ending == ".tsv" || ending == ".txt")
    file.refuse("is a table of text, which is not read; write its columns with numpy.save or safetensors first");
  std::vector<std::string> all{names.input, names.target};
  all.insert(all.end(), names.extras.begin(), names.extras.end());
  auto arrays = read_safetensors(file, all);
  SampleArrays samples{std::move(arrays[0]), std::move(arrays[1]), {}, {}};
  samples.extras.assign(std::move_iterator(arrays.begin() + 2), std::move_iterator(arrays.end()));
  for (const auto& entry : read_safetensors_header(file.path)) {
    if (std::ranges::find(all, entry.name) == all.end()) samples.others.push_back(entry.name);
  }
  return samples;
}

bool same_sample(const StoredArray& a, const StoredArray& b) {
  return std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1, b.shape.end());
}

void require_same_sample(const StoredArray& train, const StoredArray& other) {
  if (same_sample(train, other)) return;
  other.refuse("is " + other.text() + ", but " + train.place + " is " + train.text() +
               ": all splits need samples of one shape");
}

}  // namespace

namespace {

void require_a_row_for_each(const StoredArray& input, const StoredArray& other) {
  require_values(other);
  if (input.rows() == other.rows()) return;
  other.refuse("has " + std::to_string(other.rows()) + " rows, but " + input.place + " has " +
               std::to_string(input.rows()) + ": each sample needs one of both");
}

// Returns what to do about a mask that does not fit its pictures; nothing if the target is no mask.
std::string advice_on_mask(const StoredArray& target, const StoredArray& input) {
  const auto pictures = input.text() + " of " + input.place;
  if (input.shape.size() == 3 && target.shape == input.shape)
    return "a class for each pixel of " + pictures + "; save pictures of one channel as [N, 1, H, W]";
  if (input.shape.size() != 4) return "";
  if (target.shape.size() == 4 && target.shape[1] == 1)
    return "expected [N, H, W] for a class for each pixel; leave out the dimension of 1";
  if (target.shape.size() != 3) return "";
  return "a class for each pixel, but the pictures are " + pictures +
         ": expected masks [N, H, W] of their pictures' height and width; if the model takes these, set "
         "dataset.classes";
}

// One class for each sample, for each symbol of a sequence, or for each pixel of a picture or voxel of a volume; any
// number of them where the experiment says that they are classes, as for the texts of a translation.
void require_classes(const StoredArray& target, const StoredArray& input, bool says_classes) {
  const auto &classes = target.shape, &inputs = input.shape;
  const bool per_symbol = classes.size() == 2 && inputs.size() >= 2 && classes[1] == inputs[1];
  const bool per_pixel =
      inputs.size() >= 4 && std::equal(classes.begin() + 1, classes.end(), inputs.begin() + 2, inputs.end());
  if (target.row_values() == 1 || per_symbol || per_pixel) return;
  const bool with_channel = inputs.size() == 4 && classes.size() == 4 && classes[1] == 1;
  if (says_classes && !with_channel) return;
  if (const auto advice = advice_on_mask(target, input); !advice.empty())
    target.refuse("is " + target.text() + ", " + advice);
  target.refuse("is " + target.text() + ", expected one class for each sample, or for each symbol or pixel of the " +
                "inputs, " + input.text() +
                ", or values of a float type; save targets that are values, or several labels of 0 and 1, as float32. "
                "If they are classes, of a text of another length, say, set dataset.classes to how many there are");
}

void require_type_of_extra(const StoredArray& extra) {
  if (extra.dtype == at::kFloat || extra.dtype == at::kLong || extra.dtype == at::kBool) return;
  extra.refuse("is " + extra.text() +
               ", expected float32, int64 or bool: the model gets extras as they are; convert it before saving");
}

void require_same_extras(const SampleArrays& train, const SampleArrays& other) {
  for (size_t i = 0; i < train.extras.size(); ++i) {
    require_same_sample(train.extras[i], other.extras[i]);
    if (train.extras[i].dtype == other.extras[i].dtype) continue;
    other.extras[i].refuse("is " + other.extras[i].text() + ", but " + train.extras[i].place + " is " +
                           train.extras[i].text() + ": all splits need one type");
  }
}

}  // namespace

SampleArrays open_samples(const std::vector<std::filesystem::path>& files, const TensorNames& names,
                          bool says_classes) {
  auto samples = read(files, names);
  require_values(samples.input);
  require_a_row_for_each(samples.input, samples.target);
  if (samples.has_classes()) require_classes(samples.target, samples.input, says_classes);
  for (const auto& extra : samples.extras) {
    require_a_row_for_each(samples.input, extra);
    require_type_of_extra(extra);
  }
  return samples;
}

namespace {

SampleArrays read_inputs(const std::filesystem::path& path, const TensorNames& names) {
  SampleArrays samples;
  const auto file = map_file(path);
  if (path.extension() == ".safetensors") {
    std::vector<std::string> all{names.input};
    all.insert(all.end(), names.extras.begin(), names.extras.end());
    auto arrays = read_safetensors(file, all);
    samples.input = std::move(arrays[0]);
    samples.extras.assign(std::move_iterator(arrays.begin() + 1), std::move_iterator(arrays.end()));
  } else {
    samples.input = read_npy(file);
    if (!names.extras.empty()) samples.input.refuse("is an array alone; dataset.extras needs a .safetensors file");
  }
  require_values(samples.input);
  return samples;
}

}  // namespace

SampleArrays open_inputs(const std::filesystem::path& path, const TensorNames& names, const SampleArrays& train) {
  auto samples = read_inputs(path, names);
  require_same_sample(train.input, samples.input);
  for (const auto& extra : samples.extras) require_a_row_for_each(samples.input, extra);
  require_same_extras(train, samples);
  return samples;
}

SampleArrays open_inputs(const std::filesystem::path& path, const TensorNames& names,
                         const std::vector<int64_t>& sample_shape) {
  auto samples = read_inputs(path, names);
  std::vector<int64_t> found(samples.input.shape.begin() + 1, samples.input.shape.end());
  if (found.empty()) found.push_back(1);
  if (found == sample_shape) return samples;
  std::ostringstream expected;
  expected << at::IntArrayRef(sample_shape);
  samples.input.refuse("is " + samples.input.text() + ", but the run was trained on samples of " + expected.str() +
                       ": expected rows of that shape");
}

std::vector<std::string> read_names(const std::filesystem::path& path) {
  const auto file = map_file(path);
  try {
    return class_names_in(file.text());
  } catch (const std::exception& error) {
    file.refuse(error.what());
  }
}

void require_alike(const SampleArrays& train, const SampleArrays& other) {
  require_same_sample(train.input, other.input);
  if (train.has_classes() != other.has_classes()) {
    other.target.refuse("is " + other.target.text() + ", but " + train.target.place + " is " + train.target.text() +
                        ": integers are classes, floats are values; all splits need the same");
  }
  if (!train.has_classes() || train.has_class_per_element() || other.has_class_per_element())
    require_same_sample(train.target, other.target);
  require_same_extras(train, other);
}

}  // namespace ddprun::arrays
