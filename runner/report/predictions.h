// SPDX-License-Identifier: MIT
// A table of predictions for the page: mistakes first, the surest of them at the top, each with its image in it.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// Images of a run as data: URIs, as long as the page stays one that a browser opens at once.
class ImageShelf {
 public:
  explicit ImageShelf(std::filesystem::path run_dir) : run_dir_(std::move(run_dir)) {}

  // Empty where `path`, below the run folder, is no PNG file, or where there is no room for it.
  std::string data_uri(const std::string& path);

  // What could not be shown, a line each.
  void tell(std::vector<std::string>& problems) const;

 private:
  std::filesystem::path run_dir_;
  size_t bytes_ = 0, no_room_ = 0, unreadable_ = 0;
};

// Of a table of kind "predictions". Throws nlohmann::json::exception where it is none.
nlohmann::ordered_json shown_predictions(const nlohmann::json& table, ImageShelf& images);

}  // namespace ddprun
