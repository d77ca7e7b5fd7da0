// SPDX-License-Identifier: MIT
// Prepares a table of predictions for the page: mistakes first, the most confident ones at the top, images included.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
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
  void tell(std::vector<std::string>& problems) const;

 private:
  std::filesystem::path run_dir_;
  size_t bytes_ = 0, no_room_ = 0, unreadable_ = 0;
};

// Takes a table of kind "predictions". Throws nlohmann::json::exception if it is not one.
nlohmann::ordered_json shown_predictions(const nlohmann::json& table, ImageShelf& images);

}  // namespace ddprun
