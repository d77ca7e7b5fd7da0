// SPDX-License-Identifier: MIT
#include "report/histograms.h"

#include "report/run_state.h"
#include "report/short_number.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <unordered_map>

namespace ddprun {
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
