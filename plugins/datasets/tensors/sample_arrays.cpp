// SPDX-License-Identifier: MIT
#include "sample_arrays.h"

#include "npy_file.h"
#include "safetensors_file.h"

#include <ddprun/safetensors.h>

#include <algorithm>
#include <iterator>
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
         ": expected masks [N, H, W] of their pictures' height and width";
}

// One class for each sample, for each symbol of a sequence, or for each pixel of a picture.
void require_classes(const StoredArray& target, const StoredArray& input) {
  const auto &classes = target.shape, &inputs = input.shape;
  const bool per_symbol = classes.size() == 2 && inputs.size() >= 2 && classes[1] == inputs[1];
  const bool per_pixel =
      classes.size() == 3 && inputs.size() == 4 && classes[1] == inputs[2] && classes[2] == inputs[3];
  if (target.row_values() == 1 || per_symbol || per_pixel) return;
  if (const auto advice = advice_on_mask(target, input); !advice.empty())
    target.refuse("is " + target.text() + ", " + advice);
  target.refuse("is " + target.text() + ", expected one class for each sample, or for each symbol or pixel of the " +
                "inputs, " + input.text() +
                ", or values of a float type; save targets that are values, or several labels of 0 and 1, as float32");
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

SampleArrays open_samples(const std::vector<std::filesystem::path>& files, const TensorNames& names) {
  auto samples = read(files, names);
  require_values(samples.input);
  require_a_row_for_each(samples.input, samples.target);
  if (samples.has_classes()) require_classes(samples.target, samples.input);
  for (const auto& extra : samples.extras) {
    require_a_row_for_each(samples.input, extra);
    require_type_of_extra(extra);
  }
  return samples;
}

SampleArrays open_inputs(const std::filesystem::path& path, const TensorNames& names, const SampleArrays& train) {
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
  require_same_sample(train.input, samples.input);
  for (const auto& extra : samples.extras) require_a_row_for_each(samples.input, extra);
  require_same_extras(train, samples);
  return samples;
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
