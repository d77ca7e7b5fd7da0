// SPDX-License-Identifier: MIT
#include "batch.h"

#include <array>
#include <cmath>

namespace ddprun::mlflow {
namespace {

constexpr std::array<size_t, 3> kMostOfKind{1000, 100, 100};
constexpr size_t kMostRequestItems = 1000;
constexpr size_t kMostRequestBytes = 900'000;  // the server's limit is a million, with everything around them
constexpr size_t kMetricBytes = 128;           // at most, apart from its key: numbers are short

size_t bytes_of(const Item& item) {
  if (item.kind == Item::Kind::kMetric) return item.json["key"].get_ref<const std::string&>().size() + kMetricBytes;
  return text_of(item.json).size() + 2;
}

}  // namespace

Json metric_value(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

Item Item::metric(const std::string& key, const Json& value, int64_t time_ms, int64_t step) {
  return {Kind::kMetric, {{"key", key}, {"value", value}, {"timestamp", time_ms}, {"step", step}}};
}

Item Item::param(const std::string& key, const std::string& value) {
  return {Kind::kParam, {{"key", key}, {"value", value}}};
}

Item Item::tag(const std::string& key, const std::string& value) {
  return {Kind::kTag, {{"key", key}, {"value", value}}};
}

std::span<const Item> first_batch(std::span<const Item> items) {
  std::array<size_t, 3> count{};
  size_t bytes = 0, taken = 0;
  for (const auto& item : items) {
    bytes += bytes_of(item);
    const bool fits = taken < kMostRequestItems &&
                      ++count[static_cast<size_t>(item.kind)] <= kMostOfKind[static_cast<size_t>(item.kind)] &&
                      bytes <= kMostRequestBytes;
    if (!fits && taken > 0) break;
    ++taken;
  }
  return items.first(taken);
}

std::string batch_request(const std::string& run_id, std::span<const Item> items) {
  constexpr std::array<const char*, 3> kLists{"metrics", "params", "tags"};
  Json request{{"run_id", run_id}};
  for (const char* list : kLists) request[list] = Json::array();
  for (const auto& item : items) request[kLists[static_cast<size_t>(item.kind)]].push_back(item.json);
  return text_of(request);
}

}  // namespace ddprun::mlflow
