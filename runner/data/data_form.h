// SPDX-License-Identifier: MIT
// data.json of a run folder: what a sample of the data is, for those who take the network away from them.
#pragma once

#include <ddprun/batch.h>
#include <ddprun/dataset.h>
#include <ddprun/value.h>

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// How an image's bytes become the model's inputs, per channel: what the byte 0 and the byte 255 become. What lies
// between them becomes a number between these, in proportion.
struct ByteRange {
  std::vector<double> black, white;
};

// The least and the greatest mean of a picture of one channel, from 0, black, to 1, white.
struct Brightness {
  double least = 0, greatest = 0;

  bool all_dark() const { return greatest < kDark; }  // light on dark, as MNIST's digits are
  bool all_light() const { return least > kLight; }   // as ink on paper

  static constexpr double kDark = 0.4, kLight = 0.6;
};

struct DataForm {
  DataSpec spec;
  at::ScalarType input_type = at::kFloat;
  std::optional<at::ScalarType> target_type = {};  // nothing in the notes of earlier versions
  std::vector<int64_t> target_shape = {};          // of one sample
  std::optional<ByteRange> bytes;                  // where the dataset makes its inputs of bytes
  std::optional<Brightness> brightness = {};       // of some training pictures, where they have one channel
  std::array<int64_t, 3> samples{};                // by Split
  DataAccount account = {};                        // of it only the digest is read back
  std::map<std::string, std::string> files = {};   // that the experiment names, such as a model's: a digest of each
};

// Returns "float32", the name in numpy and PyTorch.
std::string_view type_name(at::ScalarType type);

// Returns what the dataset's own pictures become, of bytes that it lends or decodes; nothing if it makes inputs
// otherwise. Once the dataset has started, or has an image_format().
std::optional<ByteRange> byte_range_of(const Dataset& dataset);

// Returns the mean of each picture, [B] from 0 to 1, on the CPU; undefined where inputs are not pictures of one
// channel.
at::Tensor brightness_of(const Dataset& dataset, const at::Tensor& input);

// Reads one sample, and of pictures of one channel 64. The dataset must have been started. Throws what its hooks throw.
DataForm form_of(const Dataset& dataset);

// Returns how the samples differ from those that `before` describes, "val has 12 samples, and had 10"; or nothing, also
// where the dataset gave no account.
std::string changes_since(const DataForm& before, const DataForm& now);

// Returns a digest of each file that a frozen experiment names, but for those of the dataset, whose account has one,
// and those of pretrained, which only a run's first step reads.
std::map<std::string, std::string> named_files(const Value& config);

// Warns of each file of that name that is not the one which the run has noted: a network's program, say, with which
// the weights of a checkpoint would give other numbers.
void warn_of_other_files(const std::filesystem::path& run_dir, const Value& config);

std::string to_json(const DataForm& form);

// Throws UserError, without the file's name, for a text that to_json() does not write.
DataForm data_form_from_json(const std::string& text);

// Replaces <run_dir>/data.json. Throws UserError where it cannot be written.
void write_data_form(const std::filesystem::path& run_dir, const DataForm& form);

// Starts the dataset as the run has noted its data, without them: Dataset::start_without_data(). Returns whether it has
// done so.
bool start_as_noted(Dataset& dataset, const DataForm& noted);

// Nothing where the run has no such file. Throws UserError for a damaged one.
std::optional<DataForm> read_data_form(const std::filesystem::path& run_dir);

}  // namespace ddprun
