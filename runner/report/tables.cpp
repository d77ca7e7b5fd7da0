// SPDX-License-Identifier: MIT
#include "report/tables.h"

#include "base/files_below.h"
#include "report/page.h"
#include "runs/run_state.h"

#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 200, kMostScores = 5, kMostValues = 16;
constexpr size_t kMostImageBytes = size_t{1} << 20, kMostImageBytesTogether = size_t{8} << 20;
constexpr std::array kImages = {"image", "output"};  // the sample, and the model's output if that is an image
constexpr std::string_view kPngHead = "\x89PNG\r\n\x1a\n";

// Returns nothing for any other file, and for one that does not lie in the run's folder.
std::string read_png(const fs::path& run_dir, const fs::path& name) try {
  auto bytes = read_below(run_dir, name, kMostImageBytes);
  return bytes.starts_with(kPngHead) ? bytes : "";
} catch (const UserError&) {
  return "";
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
  if (const auto file = row.find("file"); file != row.end()) shown["file"] = *file;
  if (const auto error = row.find("error"); error != row.end()) shown["error"] = *error;
  if (classes == 0) {
    shown["truth"] = cut(row.at("truth").get<std::vector<double>>(), kMostValues);
    shown["values"] = cut(numbers(row.at("scores")), kMostValues);
    return shown;
  }
  const auto truth = recorded_count(row.at("truth")), guess = recorded_count(row.at("guess"));  // -1: unknown
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

// Sorts wrong before right, and unknown as right; the wrong by descending, the right by ascending confidence.
bool before(const Json& one, const Json& other) {
  const auto is_wrong = [](const Json& row) { return row["truth"] != -1 && row["truth"] != row["guess"]; };
  const bool wrong = is_wrong(one), other_wrong = is_wrong(other);
  if (wrong != other_wrong) return wrong;
  const auto score = one["score"].get<double>(), other_score = other["score"].get<double>();
  return wrong ? score > other_score : score < other_score;
}

}  // namespace

std::string ImageShelf::data_uri(const std::string& path) {
  const auto png = read_png(run_dir_, path);
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

void ImageShelf::report(std::vector<std::string>& problems) const {
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

namespace {

using Json = nlohmann::ordered_json;
using Counts = std::vector<std::vector<int64_t>>;

constexpr size_t kMostDrawnClasses = 200;
constexpr size_t kMostPairs = 20;

constexpr int64_t kMostCount = 1'000'000'000'000;  // per pair, so that a whole table can be added up

Counts counts_of(const nlohmann::json& table) {
  Counts counts;
  for (const auto& row : table.at("counts")) {
    auto& read = counts.emplace_back();
    for (const auto& value : row) read.push_back(recorded_count(value));
    if (!std::ranges::all_of(read, [](int64_t count) { return 0 <= count && count <= kMostCount; }))
      throw std::runtime_error("a count is out of range");
  }
  return counts;
}

struct Pair {
  size_t truth = 0, guess = 0;
  int64_t count = 0;
};

void require_square(const Counts& counts, size_t classes) {
  const auto fits = [&](const std::vector<int64_t>& row) { return row.size() == classes; };
  if (counts.size() != classes || !std::ranges::all_of(counts, fits))
    throw std::runtime_error("expected " + std::to_string(classes) + " rows and columns");
}

std::vector<Pair> confused_pairs(const Counts& counts) {
  std::vector<Pair> pairs;
  for (size_t truth = 0; truth < counts.size(); ++truth) {
    for (size_t guess = 0; guess < counts.size(); ++guess) {
      if (truth != guess && counts[truth][guess] > 0) pairs.push_back({truth, guess, counts[truth][guess]});
    }
  }
  const auto shown = std::min(pairs.size(), kMostPairs);
  std::ranges::partial_sort(pairs, pairs.begin() + static_cast<std::ptrdiff_t>(shown), std::ranges::greater(),
                            &Pair::count);
  pairs.resize(shown);
  return pairs;
}

}  // namespace

Json shown_confusion(const nlohmann::json& table) {
  const auto classes = table.at("classes").get<std::vector<std::string>>();
  const auto counts = counts_of(table);
  require_square(counts, classes.size());
  auto totals = Json::array();
  int64_t correct = 0;
  for (size_t truth = 0; truth < counts.size(); ++truth) {
    int64_t total = 0;
    for (const auto count : counts[truth]) total += count;
    totals.push_back(total);
    correct += counts[truth][truth];
  }
  auto pairs = Json::array();
  for (const auto& pair : confused_pairs(counts)) pairs.push_back({pair.truth, pair.guess, pair.count});
  Json shown{{"classes", classes}, {"totals", totals}, {"correct", correct}, {"pairs", pairs}};
  if (classes.size() <= kMostDrawnClasses) shown["counts"] = counts;
  return shown;
}

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostNumbers = 600'000;  // for all counts in the page
constexpr size_t kFewestSteps = 6, kMostSteps = 40;

size_t numbers_in(const nlohmann::json& table) {
  size_t numbers = 0;
  for (const auto& histogram : table.at("histograms")) numbers += histogram.at("counts").size();
  return numbers;
}

// Picks lines that are spread evenly, including the first and the last.
std::vector<TableLine> spread(const std::vector<TableLine>& lines, size_t most) {
  if (lines.size() <= most) return lines;
  std::vector<TableLine> chosen;
  for (size_t i = 0; i < most; ++i) chosen.push_back(lines[i * (lines.size() - 1) / (most - 1)]);
  return chosen;
}

bool evenly_spaced(const std::vector<double>& edges) {
  const auto width = (edges.back() - edges.front()) / static_cast<double>(edges.size() - 1);
  for (size_t i = 0; i < edges.size(); ++i) {
    if (std::abs(edges[i] - (edges.front() + static_cast<double>(i) * width)) > 1e-3 * std::abs(width)) return false;
  }
  return true;
}

double number_or_zero(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? short_number(found->get<double>()) : 0;
}

Json shown_histogram(const nlohmann::json& histogram, int64_t step) {
  std::vector<int64_t> counts;
  for (const auto& count : histogram.at("counts")) counts.push_back(recorded_count(count));
  const auto edges = histogram.at("edges").get<std::vector<double>>();
  if (!(counts.empty() && edges.empty()) && edges.size() != counts.size() + 1)
    throw std::runtime_error("as many edges as counts, and one, were expected");
  Json shown{{"step", step}};
  for (const char* name : {"min", "max", "mean", "stddev", "nonfinite"}) shown[name] = number_or_zero(histogram, name);
  shown["counts"] = counts;
  if (counts.empty()) return shown;
  shown["low"] = short_number(edges.front());
  shown["high"] = short_number(edges.back());
  if (!evenly_spaced(edges)) {
    auto& short_edges = shown["edges"] = Json::array();
    for (const auto edge : edges) short_edges.push_back(short_number(edge));
  }
  return shown;
}

class Tensors {
 public:
  void add(const nlohmann::json& table, int64_t step) {
    for (const auto& histogram : table.at("histograms")) {
      const auto name = histogram.at("name").get<std::string>();
      const auto [found, fresh] = places_.try_emplace(name, tensors_.size());
      if (fresh) tensors_.push_back({{"name", name}, {"steps", Json::array()}});
      tensors_[found->second]["steps"].push_back(shown_histogram(histogram, step));
    }
  }

  Json take() { return std::move(tensors_); }

 private:
  Json tensors_ = Json::array();
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace

Json shown_histograms(const TableIndex& tables, std::vector<std::string>& problems) {
  const auto lines = tables.all("histograms");
  if (lines.empty()) return Json::array();
  Tensors tensors;
  try {
    const auto numbers = std::max<size_t>(numbers_in(tables.read(lines.back())), 1);
    for (const auto& line : spread(lines, std::clamp(kMostNumbers / numbers, kFewestSteps, kMostSteps)))
      tensors.add(tables.read(line), line.step);
  } catch (const std::exception& error) {
    problems.push_back(std::string("tables.jsonl: histograms cannot be shown: ") + error.what());
  }
  return tensors.take();
}

}  // namespace ddprun
