// SPDX-License-Identifier: MIT
// An experiment on its way, for `ddprun init`: a template, and what its places get.
#pragma once

#include "agent/checked_experiment.h"
#include "base/run_files.h"
#include "cli/yaml_template.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// The files in plugins/init, as they were when the program was built (cmake/embed_texts.cmake).
extern const char* const kPhotosExperiment;
extern const char* const kTableExperiment;
extern const char* const kTextExperiment;

class FirstExperiment {
 public:
  // `overrides` are options of the dataset, dataset.KEY=VALUE, which stand in the place of what would be chosen. Throws
  // UserError for others, and if `file` exists.
  FirstExperiment(const char* yaml_template, std::filesystem::path file, const std::string& name,
                  std::vector<std::string> overrides);

  bool is_asked_for(const std::string& option) const;

  // Give a place of the template its value: a number or list of such, nothing (which only lets the line stand), or
  // paths, which stand relative to the file if they lie in its folder. Lines whose places have no value are left out.
  void set(const std::string& place, const std::string& value = "");
  void set_paths(const std::string& place, const std::vector<std::filesystem::path>& paths);
  void leave_out(const std::string& place);

  // Composes and checks it as any experiment, with more overrides, and starts its data. Throws UserError.
  CheckedExperiment opened(const std::vector<std::string>& more = {}) const;

  // Writes the file. Throws UserError if another process has made it meanwhile.
  void write();

 private:
  std::string text() const;

  std::string template_;
  std::filesystem::path path_;
  NewFile file_;
  std::vector<std::string> overrides_;
  std::vector<std::pair<std::string, Value>> asked_;  // by option
  PlaceValues values_;
};

}  // namespace ddprun
