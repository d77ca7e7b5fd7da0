// SPDX-License-Identifier: MIT
// The file that torch.export.save() writes: a zip archive of a program in JSON and its tensors as bytes.
#pragma once

#include "results.h"

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace ddprun::exported {

struct Weight {
  at::Tensor tensor;
  bool is_parameter = false;
  bool is_state = false;  // a part of the module's state_dict(): not a constant, nor a buffer that is not saved
};

// Where parameters that do not train lie: in memory of this process, or in that of the archive's file, which processes
// share. What is written to them is this process' own.
enum class Fixed { kRead, kMapped };

class Archive {
 public:
  // Reads what the archive holds, not its tensors, but whether they are all there. Throws UserError, without the file's
  // name, if it is another kind of file, is damaged, or was written by another torch than this program understands.
  explicit Archive(const std::filesystem::path& file);
  ~Archive();
  Archive(Archive&&) noexcept;
  Archive& operator=(Archive&&) noexcept;

  // Return the programs for training, for evaluation and, of a network that computes its loss, for predictions: null
  // where the archive has none.
  const nlohmann::json& training() const { return training_; }
  const nlohmann::json& evaluation() const { return evaluation_; }
  const nlohmann::json& prediction() const { return prediction_; }

  // Returns the results of a loss, or of a network that computes its loss; none for one that gives its prediction.
  const std::vector<ResultForm>& results() const { return results_; }
  bool is_network() const { return results_.empty() || has_network_; }

  // Returns the name of the input that is the batch's target; empty: none is.
  const std::string& target() const { return target_; }

  // Returns parameters, buffers and constants by their names in Python, on the CPU. Two names of the same numbers (tied
  // weights) share one tensor; parameters require gradients as they did in Python. The tensors own what was read: the
  // archive may go, and be replaced; mapped ones need its numbers until they go, under whatever name. Throws UserError
  // if they are not those that were written, or cannot be mapped.
  std::map<std::string, Weight> tensors(Fixed fixed = Fixed::kRead) const;

 private:
  class Mapping;  // of the whole file

  // Where a tensor's numbers are: those with the same place are one tensor.
  struct Place {
    std::string record;
    at::ScalarType type = at::kFloat;
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;

    auto operator<=>(const Place&) const = default;
  };
  struct Entry {
    Place place;
    bool is_parameter = false, is_state = false, requires_grad = false;
  };

  std::string text(const std::string& record) const;
  nlohmann::json json(const std::string& record, size_t most_depth) const;
  nlohmann::json program(const std::string& record) const;
  bool has(const std::string& record) const;
  void find_name();
  void find_programs();
  void read_about();
  void find_tensors(const std::string& folder, const std::string& config);
  static Entry entry_of(const std::string& folder, const nlohmann::json& payload);
  at::Tensor read(const Entry& entry) const;
  at::Tensor mapped(const Entry& entry, const std::shared_ptr<const Mapping>& mapping) const;

  std::filesystem::path file_;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
  std::string name_;  // of the program: "model"
  nlohmann::json training_, evaluation_, prediction_;
  std::map<std::string, Entry> entries_;
  std::vector<ResultForm> results_;
  bool has_network_ = false;  // where there are results
  std::string target_;
  std::string digest_;  // of all tensors, as tools/export_model wrote it; empty: unknown
};

// Returns the type, memory format or layout of a number in the archive, whose numbers are not LibTorch's. Throw
// UserError.
at::ScalarType scalar_type_of(int64_t number);
at::MemoryFormat memory_format_of(int64_t number);
at::Layout layout_of(int64_t number);

}  // namespace ddprun::exported
