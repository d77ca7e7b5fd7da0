// SPDX-License-Identifier: MIT
// What one training step computed, in the order in which it did: a digest of every operator's results, of the gradients
// and of all that the step left (features/record/step_recorder.h). Two steps with the same record had the same bits
// throughout.
//
// Workers append records to <run>/records/rank_<rank>.jsonl, a line for each step, and one of all ranks is a file that
// `ddprun replay --out` writes, to be compared on another machine. Digests are those of weights/tensor_digest.h.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct TensorNote {
  std::string form;  // "Float[32, 10]"
  uint64_t digest = 0;
  double largest = 0;  // absolute value of its finite numbers; 0 if it has none
  bool finite = true;  // whether all numbers are
  bool operator==(const TensorNote&) const = default;
};

struct OperatorNote {
  std::string name;        // "aten::mm", "aten::mm in backward of aten::linear"
  std::string parameters;  // that it works on, or whose gradient it belongs to: "fc.weight, fc.bias"; may be empty
  std::string line;        // of the model's source, where that is known: "net.py:12"
  std::vector<TensorNote> results;
  bool operator==(const OperatorNote&) const = default;
};

struct SampleNote {
  int64_t number = 0;               // in the training split
  uint64_t digest = 0;              // of what the model was given for it
  std::optional<double> loss = {};  // of the sample alone, in evaluation; nothing if it was not computed
  bool operator==(const SampleNote&) const = default;
};

// What one rank computed at once: a shard, a micro-batch, or its whole part of the batch.
struct PartNote {
  int64_t rank = -1;   // -1 for a shard, whose bits do not depend on it
  int64_t number = 0;  // of the shard in the global batch; else within the rank
  double loss = 0;     // mean; NaN if it is not finite
  double weight = 0;   // how many it is the mean of: samples, or what the model has counted
  std::vector<SampleNote> samples;
  std::vector<OperatorNote> operators;
};

struct NamedNote {
  std::string name;  // "conv1.weight", "conv1.weight/momentum of the optimizer"
  TensorNote tensor;
  double norm = 0;  // L2; NaN if it is not finite
};

struct StepRecord {
  int64_t step = 0;
  std::vector<PartNote> parts;       // by rank and number
  std::vector<NamedNote> gradients;  // averaged over the batch, before clipping
  std::vector<NamedNote> left;       // by the step: weights, rank 0's buffers; the optimizer's state, averages
  std::vector<NamedNote> begun;      // the same before the first step that is recorded; empty in the others
  std::string losses_problem;        // why there are no losses of samples; empty if there are, or none was asked for

  double loss() const;           // mean over the parts by their weights
  double gradient_norm() const;  // of all gradients together
};

nlohmann::ordered_json to_json(const StepRecord& record);
// Throws nlohmann's exceptions for what is no record.
StepRecord record_from(const nlohmann::ordered_json& json);

// Returns the records that the ranks of a run have written, joined, by step; none if it has none. Throws UserError if a
// file is damaged.
std::map<int64_t, StepRecord> read_records(const std::filesystem::path& run_dir);

// Where the ranks write.
std::filesystem::path record_file(const std::filesystem::path& run_dir, int64_t rank);
// Where they keep the results of one operator (record.operator).
std::filesystem::path kept_tensors_file(const std::filesystem::path& run_dir, int64_t rank);

}  // namespace ddprun
