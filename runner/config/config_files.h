// SPDX-License-Identifier: MIT
// Finds experiments and the files of groups below the folders of the search path.
#pragma once

#include "config/yaml_reader.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// Returns the folders with experiments and groups: $DDPRUN_CONFIG_PATH (separated by colons), then the configs
// installed with the program.
std::vector<std::filesystem::path> config_search_path();

class ConfigFiles {
 public:
  explicit ConfigFiles(std::vector<std::filesystem::path> search_path) : search_path_(std::move(search_path)) {}

  // Returns the file of an experiment: as given, then below each folder, then below each folder's experiments/; with
  // and without ".yaml". If there is none, notes a problem with all places tried and the nearest existing name.
  std::optional<std::filesystem::path> find_experiment(const std::filesystem::path& given, Problems& problems) const;

  // Returns the file of "model/convnet": <folder>/model/convnet.yaml in the first folder that has it.
  std::optional<std::filesystem::path> find(const std::string& entry) const;

  // Returns why find() found nothing: the places tried and the nearest name in that group.
  std::string not_found(const std::string& entry) const;

  // Puts the folder of the experiment first, so that its groups may lie beside it: x/experiments/mnist.yaml finds
  // x/model/convnet.yaml, and so does x/mnist.yaml.
  void put_first(const std::filesystem::path& experiment);

 private:
  std::vector<std::filesystem::path> search_path_;
};

}  // namespace ddprun
