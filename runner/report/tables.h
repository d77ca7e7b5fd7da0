// SPDX-License-Identifier: MIT
// Prepares a run's tables for the page: predictions with their images, confusion matrices, histograms of tensors.
#pragma once

#include "runs/table_index.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// Provides images of a run as data: URIs, as long as the page stays small enough to open at once.
class ImageShelf {
 public:
  explicit ImageShelf(std::filesystem::path run_dir) : run_dir_(std::move(run_dir)) {}

  // Returns empty if `path`, below the run folder, is not a PNG file, or there is no room for it.
  std::string data_uri(const std::string& path);

  // Reports what could not be shown, one line each.
  void report(std::vector<std::string>& problems) const;

 private:
  std::filesystem::path run_dir_;
  size_t bytes_ = 0, no_room_ = 0, unreadable_ = 0;
};

// Puts mistakes first, the most confident ones at the top. Takes a table of kind "predictions". Throws
// nlohmann::json::exception if it is not one.
nlohmann::ordered_json shown_predictions(const nlohmann::json& table, ImageShelf& images);

// Returns the counts if they can be drawn, and the classes most often taken for another. Takes a table of kind
// "confusion". Omits the counts if there are too many classes to distinguish in a picture. Throws
// nlohmann::json::exception or std::runtime_error if it is not such a table.
nlohmann::ordered_json shown_confusion(const nlohmann::json& table);

// Returns how the numbers of each tensor were distributed: [{"name": "weights/conv1.weight", "steps": [{"step", "min",
// "max", "mean", "stddev", "nonfinite", "counts", "edges"}]}] with every tensor's first and last table, and as many
// between them, evenly spread, as a page can hold. Omits edges that are evenly spaced. Empty if there are none.
nlohmann::ordered_json shown_histograms(const TableIndex& tables, std::vector<std::string>& problems);

// Rounds to six digits, the most that a chart shows, which makes the text much shorter.
inline double short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return std::strtod(text, nullptr);
}

}  // namespace ddprun
