// SPDX-License-Identifier: MIT
// What one request to MLflow may hold: 1000 metrics, 100 params, 100 tags, 1000 of all, a megabyte.
#pragma once

#include "json.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddprun::mlflow {

// A number as MLflow reads it: NaN and the infinite ones are words.
Json metric_value(double value);

// A metric, a param or a tag, as the request has it.
struct Item {
  enum class Kind { kMetric, kParam, kTag };

  static Item metric(const std::string& key, const Json& value, int64_t time_ms,
                     int64_t step);  // as metric_value gives it
  static Item param(const std::string& key, const std::string& value);
  static Item tag(const std::string& key, const std::string& value);

  std::string key() const { return json["key"].get<std::string>(); }

  Kind kind = Kind::kMetric;
  Json json;
};

// The first of `items` that fit into one request, at least one.
std::span<const Item> first_batch(std::span<const Item> items);

// The body of that request; without items it changes nothing, and asks whether the run can be written to.
std::string batch_request(const std::string& run_id, std::span<const Item> items);

}  // namespace ddprun::mlflow
