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
#include <vector>

namespace ddprun {

// How an image's bytes become the model's inputs, per channel: what the byte 0 and the byte 255 become. What lies
// between them becomes a number between these, in proportion.
struct ByteRange {
  std::vector<double> black, white;
};

struct DataForm {
  DataSpec spec;
  at::ScalarType input_type = at::kFloat;
  std::optional<ByteRange> bytes;                 // where the dataset lends its images as bytes
  std::array<int64_t, 3> samples{};               // by Split
  DataAccount account = {};                       // of it only the digest is read back
  std::map<std::string, std::string> files = {};  // that the experiment names, such as a model's: a digest of each
};

// Reads one sample. The dataset must have been started. Throws what its hooks throw.
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

// Nothing where the run has no such file. Throws UserError for a damaged one.
std::optional<DataForm> read_data_form(const std::filesystem::path& run_dir);

}  // namespace ddprun
