// SPDX-License-Identifier: MIT
// One program of an archive, for training or for evaluation, over the tensors of the model.
#pragma once

#include "graph.h"

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::exported {

// What a program takes, as it was exported.
struct InputForm {
  std::string name;  // of the argument of forward() in Python
  at::ScalarType type = at::kFloat;
  std::vector<std::optional<int64_t>> sizes;  // with the batch; nothing: any size

  // Returns whether forward() may be called with it: an input of another floating-point type may.
  bool takes(const at::Tensor& input) const;
  std::string text() const;  // "[*, 3, 32, 32]"
};

class Program {
 public:
  // `json` is the value of the key "graph_module". Throws UserError for what cannot run here, and for more or fewer
  // tensors than `results`.
  explicit Program(const nlohmann::json& json, size_t results = 1);

  const std::vector<InputForm>& inputs() const { return inputs_; }

  // From now on the program reads and changes these tensors, by their names in Python. The map must outlive the program
  // and keep its entries; what they hold may be replaced. Throws UserError that names one that is missing.
  void bind(const std::map<std::string, at::Tensor>& tensors);

  // Returns the graph, and the names of its tensors by slot, for what replaces its nodes.
  Graph& graph() { return graph_; }
  std::map<int, std::string> names() const;

  // Returns the names of its tensors in Python's order, that of the modules.
  std::vector<std::string> tensors() const;

  // Returns the classes of the modules in Python, by path.
  const std::map<std::string, std::string>& modules() const { return modules_; }

  // Finds what backward may compute again where trainer.recompute asks for it. `placed` sets the module of a block, and
  // its buffers: those of the tensors that it changes, whose names it gets. Without a module it is none.
  void find_blocks(const std::function<void(Block& block, const std::vector<std::string>& changed)>& placed);

  // Returns the results, in Python's order. `given` are the inputs in their order, on `device`, as are the tensors. May
  // be called from several threads.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& given, at::Device device) const;

 private:
  struct Source {
    std::string name;                    // of a tensor of the model; empty: the next of the inputs, or nothing
    const at::Tensor* tensor = nullptr;  // once it is bound
    bool is_input = false;
  };

  void read_sources(const nlohmann::json& specs, const nlohmann::json& graph);
  static void require_results(const nlohmann::json& specs, size_t results);

  Graph graph_;
  std::map<std::string, std::string> modules_;
  std::vector<Source> sources_;
  std::vector<InputForm> inputs_;
};

}  // namespace ddprun::exported
