// SPDX-License-Identifier: MIT
#include "runs/curves.h"

#include "runs/json_lines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>

namespace ddprun {
namespace {

constexpr std::string_view kTrainRows = "train", kEpochRows = "epoch";
constexpr auto kOfEpochsAlone = std::to_array<std::string_view>({"train_seconds", "evaluation_seconds"});
constexpr auto kPlaces = std::to_array<std::string_view>({"time", "attempt", "epoch", "step", "samples"});

// Takes rows in file order. All curves are sorted at any time: a row replaces those that it invalidates.
class CurveBuilder {
 public:
  explicit CurveBuilder(AttemptStarts& starts) : starts_(starts) {}

  void add(const FlatObject& row) {
    const auto attempt = row.integer("attempt"), step = row.integer("step");
    if (attempt > newest_attempt_) begin(attempt, step);
    const std::string split_name(row.text("split"));
    const auto time = row.number("time");
    auto& split = splits_[split_name];
    cut(split, step - 1);  // written twice, or rolled back
    auto& written = split.rows.emplace_back(Row{step, {}});
    for (const auto& [name, value] : row.numbers) {
      if (std::ranges::find(kPlaces, name) != kPlaces.end()) continue;
      const auto [found, fresh] = split.curves.try_emplace(name, result_.curves.size());
      if (fresh) result_.curves.push_back({split_name, name, {}});
      result_.curves[found->second].points.push_back({step, time, value});
      written.curves.push_back(found->second);
    }
    if (split_name != kEpochRows) measure(row, step);
  }

  Curves take() {
    if (starts_.newest() > newest_attempt_) cut_all(starts_.last_step(newest_attempt_));  // resumed, without a row yet
    show_epochs_where_rows_are_few();
    std::erase_if(result_.curves, [](const Curve& curve) { return curve.points.empty() || curve.split == kEpochRows; });
    return std::move(result_);
  }

 private:
  struct Row {
    int64_t step;
    std::vector<size_t> curves;  // indices of the curves that got a point
  };
  struct Split {
    std::unordered_map<std::string, size_t> curves;  // by name
    std::vector<Row> rows;                           // those that count, by ascending steps
  };

  // Rows of "epoch" are means of those of "train". A run whose epochs are shorter than trainer.log_every has more of
  // them: its curve is the epochs'.
  void show_epochs_where_rows_are_few() {
    for (size_t i = 0, count = result_.curves.size(); i < count; ++i) {
      const auto name = result_.curves[i].name;
      if (result_.curves[i].split != kEpochRows || std::ranges::count(kOfEpochsAlone, name) > 0) continue;
      const auto found = std::ranges::find_if(
          result_.curves, [&](const Curve& curve) { return curve.split == kTrainRows && curve.name == name; });
      const bool is_new = found == result_.curves.end();
      if (!is_new && found->points.size() >= result_.curves[i].points.size()) continue;
      auto points = std::move(result_.curves[i].points);
      if (is_new)
        result_.curves.push_back({std::string(kTrainRows), name, std::move(points)});
      else
        found->points = std::move(points);
    }
  }

  void begin(int64_t attempt, int64_t step) {
    starts_.saw(attempt, step);
    cut_all(starts_.last_step(attempt - 1));
    newest_attempt_ = attempt;
  }

  // Touches only the points that are removed: a file may have as many names as rows.
  void cut(Split& split, int64_t last_step) {
    for (auto& rows = split.rows; !rows.empty() && rows.back().step > last_step; rows.pop_back()) {
      for (const auto curve : rows.back().curves) result_.curves[curve].points.pop_back();
    }
  }

  void cut_all(int64_t last_step) {
    for (auto& [name, split] : splits_) cut(split, last_step);
  }

  void measure(const FlatObject& row, int64_t step) {
    const auto epoch = row.integer("epoch");
    if (result_.first_time == 0) result_.first_time = row.number("time");
    if (epoch > 0)  // exact once a row was written at the end of an epoch
      result_.steps_per_epoch =
          std::max(result_.steps_per_epoch, static_cast<double>(step) / static_cast<double>(epoch));
  }

  AttemptStarts& starts_;
  Curves result_;
  std::map<std::string, Split> splits_;
  int64_t newest_attempt_ = -1;
};

}  // namespace

Curves read_curves(const std::filesystem::path& file, AttemptStarts& starts, std::vector<std::string>& problems) {
  CurveBuilder builder(starts);
  const auto add = [&](const FlatObject& row, uint64_t) { builder.add(row); };
  read_json_lines(file, "split", problems, add);
  return builder.take();
}

namespace {

constexpr size_t kPointsPerStretch = 3;  // least, greatest, not finite

// Appends the points of the stretch that stay, in order.
void keep_extremes(std::span<const Point> stretch, std::vector<Point>& kept) {
  const Point *least = nullptr, *greatest = nullptr, *lost = nullptr;
  for (const auto& point : stretch) {
    if (!std::isfinite(point.value)) {
      if (!lost) lost = &point;
      continue;
    }
    if (!least || point.value < least->value) least = &point;
    if (!greatest || point.value > greatest->value) greatest = &point;
  }
  std::array<const Point*, kPointsPerStretch> chosen = {least, greatest, lost};
  std::ranges::sort(chosen);
  const Point* previous = nullptr;
  for (const auto* point : chosen) {
    if (point && point != previous) kept.push_back(*point);
    previous = point;
  }
}

Point mean_of(std::span<const Point> stretch) {
  const auto& middle = stretch[stretch.size() / 2];
  double sum = 0;
  size_t count = 0;
  for (const auto& point : stretch) {
    if (!std::isfinite(point.value)) continue;
    sum += point.value;
    ++count;
  }
  return {middle.step, middle.time, count > 0 ? sum / static_cast<double>(count) : std::nan("")};
}

}  // namespace

ThinCurve downsample(const std::vector<Point>& points, size_t most) {
  if (points.size() <= most) return {points, {}};
  const auto inner = std::span(points).subspan(1, points.size() - 2);
  const auto stretches = (most - 2) / kPointsPerStretch;
  ThinCurve thin;
  thin.points.push_back(points.front());
  for (size_t i = 0; i < stretches; ++i) {
    const auto begin = i * inner.size() / stretches, end = (i + 1) * inner.size() / stretches;
    const auto stretch = inner.subspan(begin, end - begin);
    keep_extremes(stretch, thin.points);
    thin.means.push_back(mean_of(stretch));
  }
  thin.points.push_back(points.back());
  return thin;
}

}  // namespace ddprun
