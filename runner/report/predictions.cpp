// SPDX-License-Identifier: MIT
#include "report/predictions.h"

#include "report/base64.h"
#include "report/run_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 200, kMostScores = 5, kMostValues = 16;
constexpr size_t kMostImageBytes = size_t{1} << 20, kMostImageBytesTogether = size_t{8} << 20;
constexpr std::array kImages = {"image", "output"};  // the sample, and the model's output if that is an image
constexpr std::string_view kPngHead = "\x89PNG\r\n\x1a\n";

// Links and dots may lead out of the run's folder, and the folder may be somebody else's.
bool is_below(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const auto real = fs::canonical(path, error), base = fs::canonical(folder, error);
  return !error && std::mismatch(base.begin(), base.end(), real.begin(), real.end()).first == base.end();
}

std::string read_png(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error || size > kMostImageBytes) return "";
  std::ifstream stream(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  return bytes.starts_with(kPngHead) ? bytes : "";
}

// Returns the best few as [class, score], the best first.
Json best_scores(const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto shown = std::min(order.size(), kMostScores);
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(shown), [&](size_t a, size_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  });
  order.resize(shown);
  auto best = Json::array();
  for (const auto index : order) best.push_back({index, scores[index]});
  return best;
}

std::vector<double> numbers(const nlohmann::json& list) {
  std::vector<double> values;
  for (const auto& value : list) values.push_back(value.is_null() ? -1 : value.get<double>());
  return values;
}

Json cut(Json list, size_t most) {
  while (list.size() > most) list.erase(list.size() - 1);
  return list;
}

Json shown_row(const nlohmann::json& row, size_t classes) {
  Json shown{{"id", row.contains("id") ? recorded_count(row["id"]) : -1}};
  if (classes == 0) {
    shown["truth"] = cut(row.at("truth").get<std::vector<double>>(), kMostValues);
    shown["values"] = cut(numbers(row.at("scores")), kMostValues);
    return shown;
  }
  const auto truth = recorded_count(row.at("truth")), guess = recorded_count(row.at("guess"));
  const auto scores = numbers(row.at("scores"));
  const auto score_of = [&](int64_t index) {
    return index >= 0 && index < static_cast<int64_t>(scores.size()) ? scores[static_cast<size_t>(index)] : 0.0;
  };
  shown["truth"] = truth;
  shown["guess"] = guess;
  shown["score"] = score_of(guess);
  shown["truth_score"] = score_of(truth);
  shown["scores"] = best_scores(scores);
  return shown;
}

// Sorts wrong before right; the wrong by descending, the right by ascending confidence.
bool before(const Json& one, const Json& other) {
  const bool wrong = one["truth"] != one["guess"], other_wrong = other["truth"] != other["guess"];
  if (wrong != other_wrong) return wrong;
  const auto score = one["score"].get<double>(), other_score = other["score"].get<double>();
  return wrong ? score > other_score : score < other_score;
}

}  // namespace

std::string ImageShelf::data_uri(const std::string& path) {
  const auto file = run_dir_ / path;
  const auto png = is_below(file, run_dir_) ? read_png(file) : "";
  if (png.empty()) {
    ++unreadable_;
    return "";
  }
  if (bytes_ + png.size() > kMostImageBytesTogether) {
    ++no_room_;
    return "";
  }
  bytes_ += png.size();
  return "data:image/png;base64," + base64(png);
}

void ImageShelf::tell(std::vector<std::string>& problems) const {
  if (unreadable_ > 0)
    problems.push_back(std::to_string(unreadable_) +
                       " images of predictions are missing or not PNG files of at most 1 MB");
  if (no_room_ > 0)
    problems.push_back(std::to_string(no_room_) +
                       " images of predictions are left out: the page would pass 8 MB of them");
}

Json shown_predictions(const nlohmann::json& table, ImageShelf& images) {
  const auto classes = table.value("classes", std::vector<std::string>());
  const auto& rows = table.at("rows");
  std::vector<Json> shown;
  for (const auto& row : rows) {
    shown.push_back(shown_row(row, classes.size()));
    for (const auto* image : kImages) {
      if (row.contains(image) && row[image].is_string()) shown.back()[image] = row[image];
    }
  }
  if (!classes.empty()) std::ranges::stable_sort(shown, before);
  if (shown.size() > kMostRows) shown.resize(kMostRows);
  for (auto& row : shown) {
    for (const auto* image : kImages) {
      if (row.contains(image)) row[image] = images.data_uri(row[image].get<std::string>());
    }
  }
  return {{"classes", classes}, {"count", rows.size()}, {"rows", shown}};
}

}  // namespace ddprun
